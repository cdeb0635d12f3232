// Everything that `coldframe extract` can be told, with its default.
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
  bool dry_run = false;         // look at the input only; no backbone and no `out` are needed

  vit::BackboneOptions
      backbone;        // --weights, --backbone, --random-weights, --architecture, --pool, --heads
  std::string preset;  // its name, "" for none
  std::filesystem::path config;  // beside the weights, states what no option does; "" for none
  preprocess::Preprocessing preprocessing;  // the preset's, with what was given on the command line
  std::filesystem::path mask;               // --mask, which `preprocessing` holds; "": none

  augment::Augmentation augmentation;  // --views, --augment, --augment-seed

  frames::FrameSelection selection;  // --start, --end, --every, --fps, --frames
  std::vector<std::string> frame_columns;
  std::string streams;  // --streams: the frame column that names streams, "none", or "": stream
  bool allow_unordered = false;
  bool sort_by_time = false;                                 // --sort time
  std::vector<std::pair<std::string, std::string>> columns;  // --columns
  std::string exam_from;                                     // --exam-from; "" for none
  std::filesystem::path root;                                // --root; "" for none
  frames::ReaderOptions reader;  // `patient_salt` is empty when none was given

  std::vector<std::string> devices = {"auto"};  // --device, or --devices: each gets a worker
  std::string precision = "auto";
  BatchLimits batch;       // --batch, --memory-budget
  int decode_threads = 0;  // 0: as decode_threads_of() has it
  int threads = 0;         // of the CPU backbone; 0: LibTorch's choice
  DType storage = DType::kFp16;
  // --cut: the block, counted from 0, whose input is stored beside the features; 0: the pixels.
  std::optional<std::int64_t> cut;
  int thumbnails = 0;  // the longer side of each frame's small JPEG in pixels; 0: none are stored
  bool allow_mixed_precision = false;
  std::string part;              // --part, as choose_part() takes it
  std::filesystem::path survey;  // --survey: frames of exams, for parts alike; "": none

  std::filesystem::path monitor;  // CSV of the machine's load; "": none

  bool benchmark = false;      // measure this machine on this input instead of extracting
  bool strict = false;         // stop at the first exam or frame that cannot be read
  std::size_t min_frames = 1;  // an exam of which fewer can be read fails; else they are masked
  bool json = false;           // the summary (of --dry-run: everything) as JSON on stdout

  // The given options of input, backbone, pixels, views and storage as lines for --config. A first
  // line names paths, their pattern and the salt. None where such a file cannot hold a word.
  std::optional<std::string> repeated;
};

// Those asked for. Else decoders share the cores with a backbone on the CPU; beside GPUs they have
// them to themselves, but for one with each GPU. For the device "auto" it starts CUDA's driver.
int decode_threads_of(const ExtractOptions& options);

// How the input is listed.
frames::ExamListOptions list_options(const ExtractOptions& options);

// Empty when --help was asked for. ConfigError: what cannot be carried out, or is missing for an
// unknown checkpoint.
std::optional<ExtractOptions> parse_extract_options(const std::vector<std::string>& arguments);

// The options of `extract`, a row for each: name, place, bounds, help, and its key in the recipe.
// The rows refer to `options`, so that they set it, and record what it holds.

using OptionRows = std::vector<OptionRow>;

// What is read: --input, which of its frames, how files become frames, how patients are named.
OptionRows input_options(ExtractOptions& options);
// The backbone, its weights, and its outputs that become the features.
OptionRows backbone_options(ExtractOptions& options);
// What happens to a frame before the backbone sees it.
OptionRows pixel_options(ExtractOptions& options);
// Augmented versions of the frames, beside them in the cache.
OptionRows view_options(ExtractOptions& options);
// What computes, how much at once, and within which memory.
OptionRows machine_options(ExtractOptions& options);
// The cache, and what it stores of each frame.
OptionRows storage_options(ExtractOptions& options);
// How the job treats exams, parts and failures, and what it prints.
OptionRows run_options(ExtractOptions& options);

// What no row says alone, once the rows have set the options, of words or of a recipe: what goes
// together, and what follows. ConfigError; DataError for a mask that cannot be read.
void finish_input(ExtractOptions& options);
void finish_pixels(ExtractOptions& options);
void finish_backbone(ExtractOptions& options);

// What only words leave open.
void size_tiles(const GivenWords& given, ExtractOptions& options);
void finish_views(const GivenWords& given, ExtractOptions& options);
void require_one_choice_of_devices(const GivenWords& given);

}  // namespace coldframe::extract
