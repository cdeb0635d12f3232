// A cache stores rows of several kinds for each frame; an exam's rows of one kind form a table.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/sequence_reader.h"

namespace coldframe::temporal {

enum class RowKind {
  kFeatures,  // [D]
  kCut,       // the input of the ViT block at which the cache was split (the cut)
};

struct RowFormat {
  torch::ScalarType type;
  std::vector<std::int64_t> shape;  // of one frame
  std::int64_t streams = 0;         // of merged features; a stream may be missing

  std::int64_t values() const;
  std::size_t bytes() const;
  std::vector<std::int64_t> table(std::int64_t rows) const;  // shape of `rows` frames
};
// DataError if the cache has no cut and kCut is asked for.
RowFormat row_format(const SequenceReader& cache, RowKind kind);

// Bytes of all present frames of these exams in one view, as stored.
std::uint64_t stored_bytes(const SequenceReader& cache, std::span<const std::size_t> exams,
                           RowKind kind);

// Visits the rows of `exams` as SequenceReader::scan_stored() does.
void scan_rows(const SequenceReader& cache, RowKind kind, const std::string& view,
               std::span<const std::size_t> exams, const SequenceReader::VisitStored& body);

// Copies the present frames and returns their number. DataError if a value is not finite. `stored`:
// all frames, as stored.
std::int64_t copy_present_rows(const cache::ExamInfo& exam, const RowFormat& format,
                               std::span<const std::byte> stored, std::byte* to);

// The cohort's features in one tensor, and what a model may use of each exam besides pixels.

// Number of frames of the first visit and of the exam's own visit if a patient's exams are joined;
// else 0.
struct VisitFrames {
  std::int64_t first = 0, own = 0;
};

// One exam. Frames missing in the cache are left out; the interval between their neighbours spans
// them.
struct Sequence {
  std::uint64_t key = 0;       // hash of the exam's id: keys all random numbers of this exam
  std::int64_t first_row = 0;  // its frames are rows first_row … + frames() − 1 of view `clean`
  std::vector<double> time_s;  // [T] seconds since the exam's first frame, NaN if unknown
  std::vector<float> clock;    // [F] see clock_descriptor()
  VisitFrames visits = {};
  double elapsed_start = cache::kUnknownTime;  // seconds from the common time zero of all exams to
                                               // the exam's first frame

  std::int64_t frames() const { return static_cast<std::int64_t>(time_s.size()); }
};

struct Dataset {
  torch::Tensor features;  // [views · rows, D] as the cache stores them: float16 or float32
  std::vector<Sequence> sequences;  // one per exam of the cache; without frames if not loaded
  std::vector<std::string> views = {"clean"};  // concatenated in `features`
  std::int64_t streams = 0;  // of merged frames: the last `streams` columns flag which are present
  torch::Device device = torch::kCPU;     // compute device; features may still be in host memory
  const SequenceReader* cache = nullptr;  // source of the data; null: none

  // Row offset of a frame in `view` from its row in `clean`.
  std::int64_t rows_before(std::size_t view) const {
    if (view == 0) return 0;
    return features.size(0) / static_cast<std::int64_t>(views.size()) *
           static_cast<std::int64_t>(view);
  }
  bool streamed() const { return cache != nullptr && !features.defined(); }
  std::uint64_t loaded_bytes() const { return features.defined() ? features.nbytes() : 0; }
};

// How the exams of a cache become sequences.
struct Arrangement {
  // The frame column that names the streams to merge, and their names in feature order (none: all
  // streams). Empty: frames are not merged.
  std::string stream_column = {};
  std::vector<std::string> stream_names = {};
  std::string visits = {};  // argument of join_visits(); empty: visits are not joined

  bool operator==(const Arrangement&) const = default;
  bool asked() const { return !stream_column.empty() || !visits.empty(); }
};

// Where features are stored while a model is fitted.
enum class FeaturePlacement { kAuto, kDevice, kMemory, kStream };

// Loads the exams given by index (see SequenceReader::exams()) in each of `views`, "clean" first,
// for `device`. SystemError, before anything is read, if they do not fit into memory; DataError if
// a feature of a present frame is not finite. kStream reads no features: a FeatureStream does. The
// cache must outlive the dataset.
Dataset load_dataset(const SequenceReader& cache, std::span<const std::size_t> exams,
                     const std::vector<std::string>& source_kinds, const torch::Device& device,
                     const std::vector<std::string>& views = {"clean"},
                     FeaturePlacement residence = FeaturePlacement::kDevice);

// Inputs of the `clock` control, which sees no pixels: number of frames, missing frames, intervals,
// duration, frame size, whether times are unknown, the source kind (one of `source_kinds`), and
// last log_elapsed() of the exam's start, 0 if unknown.
inline constexpr std::size_t kClockLogFrames = 0, kClockLogInterval = 2, kClockUntimed = 7;
std::vector<float> clock_descriptor(const cache::ExamInfo& exam,
                                    const std::vector<std::string>& source_kinds);
// Source kinds of the given exams (by index), sorted.
std::vector<std::string> source_kinds(std::span<const cache::ExamInfo> exams,
                                      std::span<const std::size_t> used);

// True if intervals carry more than the exam's duration: they are known, and uneven in at least
// half of the exams. Frames sampled evenly from a video deviate from an even grid by up to half a
// source frame; that does not count as uneven.
bool times_are_informative(std::span<const cache::ExamInfo> exams,
                           std::span<const std::size_t> used);

// Number of the given exams (by index) whose start relative to a common time zero is unknown.
std::size_t exams_without_start(std::span<const cache::ExamInfo> exams,
                                std::span<const std::size_t> used);

// True if all exams state it and the latest starts more than 1 s after the earliest. (If all start
// at the same time, elapsed time adds nothing to the time since the first frame.)
bool has_common_zero(std::span<const cache::ExamInfo> exams, std::span<const std::size_t> used);

// Signed logarithm of seconds, which may be negative: sign(t) · log(1 + |t|).
double log_elapsed(double seconds);

// Training draws from these views of a cache; everything else sees `clean` only.
enum class ViewChoice { kAuto, kClean, kAll };

// "clean" first. kAuto: all views of the cache. ConfigError for kAll if the cache has one view
// only.
std::vector<std::string> training_views(const SequenceReader& cache, ViewChoice choice);

// Chooses where features stay while models are fitted: on the device, in host memory, or in the
// cache.

struct Placement {
  FeaturePlacement where = FeaturePlacement::kMemory;
  std::string text;  // "17.6 MiB, streamed from the cache: more than half of …"
};

// kAuto: the device if the features take at most half of its memory, or of `budget` (bytes; 0:
// none); else host memory if it suffices; else the cache. On the CPU the device is host memory.
Placement place_features(FeaturePlacement asked, std::uint64_t bytes, const torch::Device& device,
                         std::uint64_t budget);

// True if `bytes` leave a tenth of the memory that is free now, or if that is unknown.
bool fits_into_memory(std::uint64_t bytes);

}  // namespace coldframe::temporal
