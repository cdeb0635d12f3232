#include "train_temporal/data/dataset.h"

#include <c10/util/Exception.h>
#include <c10/util/Half.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <ranges>
#include <set>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/system/gpu_libraries.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/torch/precision.h"

namespace coldframe::temporal {

namespace {

bool is_finite(std::uint16_t half) {
  return (half & 0x7c00u) != 0x7c00u;
}
bool is_finite(float value) {
  return std::isfinite(value);
}

double shown(std::uint16_t half) {
  return static_cast<double>(static_cast<float>(c10::Half(half, c10::Half::from_bits())));
}
double shown(float value) {
  return static_cast<double>(value);
}

template <typename Value>
void require_finite(const cache::ExamInfo& exam, std::size_t frame, const std::byte* row,
                    std::size_t columns, const char* what) {
  // The loop has no branch per value, so that the compiler vectorises it.
  bool fine = true;
  for (std::size_t column = 0; column < columns; ++column) {
    Value value;
    std::memcpy(&value, row + column * sizeof(Value), sizeof(Value));
    fine &= is_finite(value);
  }
  if (fine) return;
  for (std::size_t column = 0;; ++column) {
    Value value;
    std::memcpy(&value, row + column * sizeof(Value), sizeof(Value));
    if (is_finite(value)) continue;
    throw DataError(concat("exam '", exam.id, "': ", what, " ", column, " of frame ", frame, " is ",
                           shown(value),
                           ", expected a finite number; run `coldframe cache verify` and extract "
                           "this exam again"));
  }
}

// The features of the streams that have a frame there.
template <typename Value>
void require_finite_streams(const cache::ExamInfo& exam, std::size_t frame, const std::byte* row,
                            const RowFormat& format) {
  const auto streams = static_cast<std::size_t>(format.streams);
  const std::size_t width = static_cast<std::size_t>(format.values()) / streams - 1;
  for (std::size_t s = 0; s < streams; ++s) {
    Value there;
    std::memcpy(&there, row + (streams * width + s) * sizeof(Value), sizeof(Value));
    if (there == Value{}) continue;
    require_finite<Value>(exam, frame, row + s * width * sizeof(Value), width, "feature");
  }
}

void require_finite(const cache::ExamInfo& exam, std::size_t frame, const std::byte* row,
                    const RowFormat& format) {
  if (format.streams > 0) {
    return format.type == torch::kFloat16
               ? require_finite_streams<std::uint16_t>(exam, frame, row, format)
               : require_finite_streams<float>(exam, frame, row, format);
  }
  const auto values = static_cast<std::size_t>(format.values());
  const char* what = format.shape.size() == 1 ? "feature" : "number of the cut";
  if (format.type == torch::kFloat16) require_finite<std::uint16_t>(exam, frame, row, values, what);
  if (format.type == torch::kFloat32) require_finite<float>(exam, frame, row, values, what);
}

}  // namespace

std::int64_t RowFormat::values() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::size_t RowFormat::bytes() const {
  return static_cast<std::size_t>(values()) * torch::elementSize(type);
}

std::vector<std::int64_t> RowFormat::table(std::int64_t rows) const {
  std::vector<std::int64_t> all = {rows};
  all.insert(all.end(), shape.begin(), shape.end());
  return all;
}

RowFormat row_format(const SequenceReader& cache, RowKind kind) {
  if (kind == RowKind::kFeatures)
    return {scalar_type(cache.storage()), {cache.dimension()}, std::ssize(cache.streams())};
  const std::optional<cache::Cut> cut = cache.cut();
  if (!cut) throw DataError("the cache has no cut; make it with `coldframe extract --cut BLOCK`");
  return {scalar_type(cut->type()), cut->shape};
}

std::uint64_t stored_bytes(const SequenceReader& cache, std::span<const std::size_t> exams,
                           RowKind kind) {
  std::uint64_t rows = 0;
  for (std::size_t exam : exams) rows += present_frames(cache.exams()[exam]);
  return rows * row_format(cache, kind).bytes();
}

void scan_rows(const SequenceReader& cache, RowKind kind, const std::string& view,
               std::span<const std::size_t> exams, const SequenceReader::VisitStored& body) {
  if (kind == RowKind::kFeatures) return cache.scan_stored(view, exams, body);
  const auto number = std::ranges::find(cache.views(), view) - cache.views().begin();
  cache.scan_cut(static_cast<std::size_t>(number), exams, body);
}

std::int64_t copy_present_rows(const cache::ExamInfo& exam, const RowFormat& format,
                               std::span<const std::byte> stored, std::byte* to) {
  const std::size_t bytes = format.bytes();
  std::int64_t rows = 0;
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    if (!exam.present[frame]) continue;
    const std::byte* row = stored.data() + frame * bytes;
    require_finite(exam, frame, row, format);
    std::memcpy(to, row, bytes);
    to += bytes;
    ++rows;
  }
  return rows;
}

namespace {

void require_memory(std::uint64_t needed) {
  if (fits_into_memory(needed)) return;
  throw SystemError(concat("the cache's features need ", human_bytes(needed),
                           " of memory, of which ", human_bytes(available_bytes()),
                           " are available; take a machine, or a limit of the container or the "
                           "job, with more memory, leave views out with --views clean, or let them "
                           "be read as they are wanted: --features stream"));
}

torch::Tensor empty_table(const std::vector<std::int64_t>& shape, torch::ScalarType type) {
  try {
    return torch::empty(shape, type);
  } catch (const c10::OutOfMemoryError&) {
    const auto bytes =
        static_cast<std::uint64_t>(c10::multiply_integers(shape)) * torch::elementSize(type);
    throw SystemError(concat("the cache's features need ", human_bytes(bytes),
                             ", more than --memory-budget allows; raise it, or let them be read "
                             "as they are wanted: --features stream"));
  }
}

// Intervals between neighbouring present frames whose times are both known.
std::vector<double> known_intervals(const cache::ExamInfo& exam) {
  std::vector<double> intervals;
  double previous = cache::kUnknownTime;
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    if (!exam.present[frame]) continue;
    const double time = exam.time_s[frame];
    if (std::isfinite(time) && std::isfinite(previous)) intervals.push_back(time - previous);
    previous = time;
  }
  return intervals;
}

// Max deviation in seconds, from an even grid, of frames sampled evenly from a longer source.
double rounding_of_picks(const cache::ExamInfo& exam, double duration) {
  if (exam.frame_index.size() != exam.frames()) return 0.0;
  const auto first = std::ranges::find(exam.present, 1) - exam.present.begin();
  const auto last =
      std::find(exam.present.rbegin(), exam.present.rend(), 1).base() - exam.present.begin() - 1;
  if (last <= first) return 0.0;
  const std::int64_t span = exam.frame_index[static_cast<std::size_t>(last)] -
                            exam.frame_index[static_cast<std::size_t>(first)];
  const bool picked = span > static_cast<std::int64_t>(exam.frames()) - 1;
  return picked ? 0.51 * duration / static_cast<double>(span) : 0.0;
}

bool is_uneven(const cache::ExamInfo& exam) {
  std::vector<double> position, time;
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    if (!std::isfinite(exam.time_s[frame])) return false;
    if (!exam.present[frame]) continue;
    position.push_back(static_cast<double>(frame));
    time.push_back(exam.time_s[frame]);
  }
  if (time.size() < 3) return false;
  const double duration = time.back() - time.front();
  const double interval = duration / (position.back() - position.front());
  const double tolerance = 0.05 * interval + rounding_of_picks(exam, duration);
  for (std::size_t i = 0; i < time.size(); ++i) {
    const double even = time.front() + (position[i] - position.front()) * interval;
    if (std::abs(time[i] - even) > tolerance) return true;
  }
  return false;
}

bool has_known_times(const cache::ExamInfo& exam) {
  return !known_intervals(exam).empty();
}

Sequence sequence_of(const cache::ExamInfo& exam, std::int64_t first_row,
                     const std::vector<std::string>& source_kinds) {
  Sequence sequence;
  sequence.time_s.reserve(present_frames(exam));
  sequence.key = xxh3_64(std::as_bytes(std::span(exam.id)));
  sequence.first_row = first_row;
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    if (exam.present[frame]) sequence.time_s.push_back(exam.time_s[frame]);
  }
  sequence.clock = clock_descriptor(exam, source_kinds);
  sequence.elapsed_start = exam.elapsed_start;
  return sequence;
}

VisitFrames visit_frames(const SequenceReader& cache, std::size_t exam) {
  const auto parts = cache.parts_of(exam);
  if (parts.size() == 1) return {};
  const auto frames = [&](std::size_t part) {
    return static_cast<std::int64_t>(present_frames(cache.alone(part)));
  };
  return {frames(parts.front()), frames(exam)};
}

}  // namespace

Dataset load_dataset(const SequenceReader& cache, std::span<const std::size_t> exams,
                     const std::vector<std::string>& source_kinds, const torch::Device& device,
                     const std::vector<std::string>& views, FeaturePlacement residence) {
  Dataset dataset;
  dataset.device = device;
  dataset.views = views;
  dataset.cache = &cache;
  dataset.streams = static_cast<std::int64_t>(cache.streams().size());
  dataset.sequences.resize(cache.exams().size());
  std::int64_t rows = 0;
  for (std::size_t index : exams) {
    dataset.sequences[index] = sequence_of(cache.exams()[index], rows, source_kinds);
    dataset.sequences[index].visits = visit_frames(cache, index);
    rows += dataset.sequences[index].frames();
  }
  if (residence == FeaturePlacement::kStream) return dataset;
  require_memory(stored_bytes(cache, exams, RowKind::kFeatures) * views.size());
  const RowFormat format = row_format(cache, RowKind::kFeatures);
  dataset.features =
      empty_table(format.table(rows * static_cast<std::int64_t>(views.size())), format.type);
  auto* table = static_cast<std::byte*>(dataset.features.data_ptr());
  for (const std::string& view : views) {
    cache.scan_stored(view, exams, [&](std::size_t exam, std::span<const std::byte> stored) {
      const auto row = static_cast<std::size_t>(dataset.sequences[exam].first_row);
      copy_present_rows(cache.exams()[exam], format, stored, table + row * format.bytes());
    });
    table += static_cast<std::size_t>(rows) * format.bytes();
  }
  if (residence == FeaturePlacement::kDevice) dataset.features = dataset.features.to(device);
  return dataset;
}

std::vector<float> clock_descriptor(const cache::ExamInfo& exam,
                                    const std::vector<std::string>& source_kinds) {
  const std::vector<double> intervals = known_intervals(exam);
  double duration = 0, mean = 0, spread = 0;
  for (double interval : intervals) duration += interval;
  if (!intervals.empty()) mean = duration / static_cast<double>(intervals.size());
  for (double interval : intervals) spread += (interval - mean) * (interval - mean);
  if (!intervals.empty()) spread = std::sqrt(spread / static_cast<double>(intervals.size()));
  const auto present = static_cast<double>(present_frames(exam));
  const auto log_of = [](double value) { return std::log1p(std::max(value, 0.0)); };
  const std::vector<double> values = {
      log_of(present),
      log_of(static_cast<double>(exam.frames()) - present),
      mean > 0 ? std::log(mean) : 0.0,
      mean > 0 ? spread / mean : 0.0,
      log_of(duration),
      log_of(exam.frame_width),
      log_of(exam.frame_height),
      intervals.empty() ? 1.0 : 0.0,
  };
  std::vector<float> descriptor(values.begin(), values.end());
  descriptor.reserve(values.size() + source_kinds.size() + 1);
  for (const std::string& kind : source_kinds) {
    descriptor.push_back(kind == exam.source_kind ? 1.0f : 0.0f);
  }
  const bool starts = std::isfinite(exam.elapsed_start);
  descriptor.push_back(starts ? static_cast<float>(log_elapsed(exam.elapsed_start)) : 0.0f);
  return descriptor;
}

std::vector<std::string> source_kinds(std::span<const cache::ExamInfo> exams,
                                      std::span<const std::size_t> used) {
  std::set<std::string> kinds;
  for (const std::size_t exam : used) kinds.insert(exams[exam].source_kind);
  return {kinds.begin(), kinds.end()};
}

bool times_are_informative(std::span<const cache::ExamInfo> exams,
                           std::span<const std::size_t> used) {
  std::size_t known = 0, uneven = 0;
  for (const std::size_t exam : used) {
    if (!has_known_times(exams[exam])) continue;
    ++known;
    if (is_uneven(exams[exam])) ++uneven;
  }
  return known > 0 && 2 * known > used.size() && 2 * uneven >= known;
}

std::size_t exams_without_start(std::span<const cache::ExamInfo> exams,
                                std::span<const std::size_t> used) {
  return static_cast<std::size_t>(std::ranges::count_if(
      used, [&](std::size_t exam) { return !std::isfinite(exams[exam].elapsed_start); }));
}

bool has_common_zero(std::span<const cache::ExamInfo> exams, std::span<const std::size_t> used) {
  constexpr double kSame = 1;  // seconds, which log_elapsed() flattens
  if (used.empty() || exams_without_start(exams, used) > 0) return false;
  const auto start = [&](std::size_t exam) { return exams[exam].elapsed_start; };
  const auto [first, last] = std::ranges::minmax(used | std::views::transform(start));
  return last - first > kSame;
}

double log_elapsed(double seconds) {
  return std::copysign(std::log1p(std::abs(seconds)), seconds);
}

std::vector<std::string> training_views(const SequenceReader& cache, ViewChoice choice) {
  if (choice == ViewChoice::kClean) return {"clean"};
  if (choice == ViewChoice::kAll && cache.views().size() < 2) {
    throw ConfigError(
        "--views all: the cache has no view but 'clean'; make it with `coldframe extract --views "
        "4`, or leave the option out");
  }
  return cache.views();
}

bool fits_into_memory(std::uint64_t bytes) {
  const std::uint64_t available = available_bytes();
  return available == 0 || bytes < available - available / 10;
}

Placement place_features(FeaturePlacement asked, std::uint64_t bytes, const torch::Device& device,
                         std::uint64_t budget) {
  const std::string size = human_bytes(bytes);
  const bool cpu = device.is_cpu();
  const std::string on_device = cpu ? ", loaded to memory" : concat(", loaded to ", device.str());
  if (asked == FeaturePlacement::kDevice) return {asked, size + on_device + ", as --features says"};
  if (asked == FeaturePlacement::kMemory)
    return {asked, size + ", loaded to memory, as --features says"};
  if (asked == FeaturePlacement::kStream) {
    return {asked, size + ", streamed from the cache, as --features says"};
  }
  const std::uint64_t most =
      budget > 0 || cpu ? budget : cuda_driver::total_memory(static_cast<int>(device.index()));
  const bool within = most == 0 || bytes <= most / 2;
  const bool memory = fits_into_memory(bytes);
  if (within && (memory || !cpu)) return {FeaturePlacement::kDevice, size + on_device};
  const std::string why =
      within ? "more than the memory that is free"
             : concat("more than half of ", budget > 0 ? "--memory-budget " : "the device's ",
                      human_bytes(most));
  if (!cpu && memory) return {FeaturePlacement::kMemory, concat(size, ", loaded to memory: ", why)};
  return {FeaturePlacement::kStream, concat(size, ", streamed from the cache: ", why)};
}

}  // namespace coldframe::temporal
