// A cache has rows of several kinds for each frame; those of an exam become rows of a table.
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
  kCut,       // what enters the block of the ViT at which the cache was cut
};

struct RowFormat {
  torch::ScalarType type;
  std::vector<std::int64_t> shape;  // of one frame
  std::int64_t streams = 0;         // of merged features, which may be missing

  std::int64_t values() const;
  std::size_t bytes() const;
  std::vector<std::int64_t> table(std::int64_t rows) const;  // the shape of so many frames
};
// DataError for the cut of a cache that has none.
RowFormat row_format(const SequenceReader& cache, RowKind kind);

// Bytes of all present frames of these exams, as stored, in one view.
std::uint64_t stored_bytes(const SequenceReader& cache, std::span<const std::size_t> exams,
                           RowKind kind);

// Goes through the rows of `exams` as SequenceReader::scan_stored() does.
void scan_rows(const SequenceReader& cache, RowKind kind, const std::string& view,
               std::span<const std::size_t> exams, const SequenceReader::VisitStored& body);

// Copies the frames that are present, which are all finite numbers or a DataError; returns how many
// they are. `stored`: all frames, as stored.
std::int64_t copy_present_rows(const cache::ExamInfo& exam, const RowFormat& format,
                               std::span<const std::byte> stored, std::byte* to);

// The cohort's features in one tensor, and what a model may know of each exam besides pixels.

// Frames of the first visit and of the exam's own, where exams of a patient are joined; else 0.
struct VisitFrames {
  std::int64_t first = 0, own = 0;
};

// One exam. Frames that are missing in the cache are left out: their time lives on in the interval
// between their neighbours.
struct Sequence {
  std::uint64_t key = 0;       // of the exam's id: all randomness about this exam hangs on it
  std::int64_t first_row = 0;  // its frames are the rows first_row … first_row + frames() − 1, in
                               // the view `clean`
  std::vector<double> time_s;  // [T] seconds since the exam's first frame, NaN if unknown
  std::vector<float> clock;    // [F] see clock_descriptor()
  VisitFrames visits = {};
  double elapsed_start = cache::kUnknownTime;  // seconds of the exam's first frame since the zero
                                               // that all exams share

  std::int64_t frames() const { return static_cast<std::int64_t>(time_s.size()); }
};

struct Dataset {
  torch::Tensor features;  // [views · rows, D] as the cache stores them: float16 or float32
  std::vector<Sequence> sequences;             // one per exam of the cache; no frames: not loaded
  std::vector<std::string> views = {"clean"};  // one after the other in `features`
  std::int64_t streams = 0;  // of merged frames: so many last columns tell which are there
  torch::Device device = torch::kCPU;     // which computes; features may yet lie in memory
  const SequenceReader* cache = nullptr;  // that it was loaded from; null: made otherwise

  // A frame's row in view `view` lies this many rows behind its row in `clean`.
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
  // The frame column that names streams, which are merged, and their names, in the order of their
  // features; no names: all that there are. Empty: frames stay apart.
  std::string stream_column = {};
  std::vector<std::string> stream_names = {};
  std::string visits = {};  // what join_visits() is asked for; empty: exams stand alone

  bool operator==(const Arrangement&) const = default;
  bool asked() const { return !stream_column.empty() || !visits.empty(); }
};

// The place of features while a model is fitted.
enum class Residence { kAuto, kDevice, kMemory, kStream };

// Loads the exams given by index (see SequenceReader::exams()) in each of `views`, "clean" first,
// for `device`. SystemError before anything is read when they do not fit into memory,
// DataError when a feature of a present frame is not finite. kStream reads no features: a
// FeatureStream does. The cache must outlive the dataset.
Dataset load_dataset(const SequenceReader& cache, std::span<const std::size_t> exams,
                     const std::vector<std::string>& source_kinds, const torch::Device& device,
                     const std::vector<std::string>& views = {"clean"},
                     Residence residence = Residence::kDevice);

// The `clock` control sees this, and no pixel: number of frames, missing frames, intervals,
// duration, frame size, whether times are unknown, the source kind (one of `source_kinds`), and
// behind all log_elapsed() of its start, 0 where unknown.
inline constexpr std::size_t kClockLogFrames = 0, kClockLogInterval = 2, kClockUntimed = 7;
std::vector<float> clock_descriptor(const cache::ExamInfo& exam,
                                    const std::vector<std::string>& source_kinds);
// Sorted; of the exams given by index.
std::vector<std::string> source_kinds(std::span<const cache::ExamInfo> exams,
                                      std::span<const std::size_t> used);

// True when time intervals carry more than the exam's duration: they are known, and uneven in at
// least half of the exams. Frames picked evenly from a video lie up to half a source frame beside
// an even grid; that does not count as uneven.
bool times_are_informative(std::span<const cache::ExamInfo> exams,
                           std::span<const std::size_t> used);

// How many of the exams given by index state no time of their start after a zero that exams share.
std::size_t exams_without_start(std::span<const cache::ExamInfo> exams,
                                std::span<const std::size_t> used);

// True when all exams state it and the latest starts more than 1 s after the earliest. (Where all
// start at one time, that of each frame says no more than the time since the first.)
bool has_common_zero(std::span<const cache::ExamInfo> exams, std::span<const std::size_t> used);

// A logarithm of seconds, some of which may lie before the zero: sign(t) · log(1 + |t|).
double log_elapsed(double seconds);

// Training draws from these views of a cache; everything else sees `clean` only.
enum class ViewChoice { kAuto, kClean, kAll };

// "clean" first. kAuto: all that the cache has. ConfigError for kAll of a cache with one view.
std::vector<std::string> training_views(const SequenceReader& cache, ViewChoice choice);

// Features lie on the device, in memory, or in the cache while models are fitted: here that is
// chosen.

struct Placement {
  Residence where = Residence::kMemory;
  std::string text;  // "17.6 MiB, streamed from the cache: more than half of …"
};

// kAuto: the device when the features take at most half of its memory, or of `budget` (bytes;
// 0: none); else memory when there is enough; else the cache. On the CPU the device is the memory.
Placement place_features(Residence asked, std::uint64_t bytes, const torch::Device& device,
                         std::uint64_t budget);

// True when so many bytes leave a tenth of the memory that is free now, or when that is unknown.
bool fits_into_memory(std::uint64_t bytes);

}  // namespace coldframe::temporal
