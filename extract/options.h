// All options of `coldframe extract`, with defaults.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "cache/format/recipe.h"
#include "common/cli/option_rows.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"
#include "extract/input/select_frames.h"
#include "extract/pipeline/batch.h"
#include "extract/preprocess/augment.h"
#include "extract/preprocess/preprocessing.h"
#include "extract/vit/backbone.h"

namespace coldframe::extract {

struct ExtractOptions {
  std::filesystem::path input;  // a folder, a file or a CSV manifest
  std::filesystem::path out;    // x.h5 (one file) or a folder of shards
  bool dry_run = false;         // inspect the input only; needs no backbone and no `out`

  vit::BackboneOptions
      backbone;         // --weights, --backbone, --random-weights, --architecture, --pool, --heads
  std::string preset;   // its name, "" for none
  std::string license;  // of the weights; "": nobody states one
  std::filesystem::path config;  // next to the weights, states what no option does; "": none
  preprocess::Preprocessing preprocessing;  // the preset's, overridden by the command line
  std::vector<double> spacing_mm;           // --spacing: one number, or one for each axis
  std::filesystem::path mask;               // --mask, loaded into `preprocessing`; "": none

  augment::Augmentation augmentation;  // --views, --augment, --augment-seed

  frames::FrameSelection selection;  // --start, --end, --every, --fps, --frames, --clip-…
  std::int64_t clip_every = 0;       // --clip-every; 0: not given
  std::int64_t clip_step = 0;        // --clip-step; likewise
  std::vector<std::string> frame_columns;
  std::string streams;  // --streams: the frame column that names streams, "none", or "": stream
  bool allow_unordered = false;
  bool sort_by_time = false;                                 // --sort time
  std::vector<std::pair<std::string, std::string>> columns;  // --columns
  std::string exam_from;                                     // --exam-from; "" for none
  std::filesystem::path root;                                // --root; "" for none
  frames::ReaderOptions reader;                              // `patient_salt` is empty if not given

  std::vector<std::string> devices = {"auto"};  // --device, or --devices: each gets a worker
  std::string precision = "auto";
  BatchLimits batch;       // --batch, --memory-budget
  int decode_threads = 0;  // 0: see decode_threads_of()
  int threads = 0;         // of the CPU backbone; 0: LibTorch's choice
  DType storage = DType::kFp16;
  // --cut: the 0-based block whose input is stored next to the features; 0: the pixels.
  std::optional<std::int64_t> cut;
  int thumbnails = 0;  // the longer side of each frame's small JPEG in pixels; 0: none are stored
  bool allow_mixed_precision = false;
  std::string part;              // --part, parsed by choose_part()
  std::filesystem::path survey;  // --survey: frame counts, to balance parts; "": none

  std::filesystem::path monitor;  // CSV of the machine's load; "": none

  bool benchmark = false;      // measure this machine on this input instead of extracting
  bool strict = false;         // stop at the first unreadable exam or frame
  std::size_t min_frames = 1;  // an exam with fewer readable ones fails; else masks the unreadable
  bool json = false;           // the summary (of --dry-run: everything) as JSON on stdout

  // The given options of input, backbone, pixels, views and storage as lines for --config. The
  // first line names paths, their pattern and the salt. nullopt if a config file cannot represent a
  // value.
  std::optional<std::string> repeated;
};

// The requested number of threads. By default, decoders share the cores with a CPU backbone; with
// GPUs they get all cores except one per GPU. For the device "auto", initialises the CUDA driver.
int decode_threads_of(const ExtractOptions& options);

// How the input is listed.
frames::ExamListOptions list_options(const ExtractOptions& options);

// nullopt for --help. ConfigError: options that cannot be satisfied, or that an unknown checkpoint
// lacks.
std::optional<ExtractOptions> parse_extract_options(const std::vector<std::string>& arguments);

// The options of `extract`, one row each: name, target, bounds, help, and key in the recipe. The
// rows refer to `options`: they set it and record its values.

using OptionRows = std::vector<OptionRow>;

// Input: --input, frame selection, decoding, patient ids.
OptionRows input_options(ExtractOptions& options);
// The backbone, its weights, and the outputs used as features.
OptionRows backbone_options(ExtractOptions& options);
// Windows of frames, for a backbone of clips.
OptionRows clip_options(ExtractOptions& options);
// Blocks of volumes, for a backbone of these.
OptionRows volume_options(ExtractOptions& options);
// Preprocessing of frames.
OptionRows pixel_options(ExtractOptions& options);
// Augmented views of the frames, stored next to them in the cache.
OptionRows view_options(ExtractOptions& options);
// Devices, batch size and memory limits.
OptionRows machine_options(ExtractOptions& options);
// The cache and what it stores per frame.
OptionRows storage_options(ExtractOptions& options);
// Handling of exams, parts and failures, and output.
OptionRows run_options(ExtractOptions& options);

// Checks combinations of options and derives dependent ones, after the rows have set the options
// from the command line or a recipe. ConfigError; DataError for an unreadable mask.
void finish_input(ExtractOptions& options);
void finish_clips(ExtractOptions& options);
void finish_pixels(ExtractOptions& options);
void finish_volumes(ExtractOptions& options);
void finish_backbone(ExtractOptions& options);

// Takes the frames of a window from the backbone where none were given. ConfigError: it takes
// others, or the options of windows do not fit together.
void settle_clips(const vit::Backbone& backbone, ExtractOptions& options);

// Defaults that apply only to the command line.
void size_tiles(const GivenWords& given, ExtractOptions& options);
void refuse_frames_with_blocks(const GivenWords& given);
void finish_views(const GivenWords& given, ExtractOptions& options);
void require_one_choice_of_devices(const GivenWords& given);

}  // namespace coldframe::extract
