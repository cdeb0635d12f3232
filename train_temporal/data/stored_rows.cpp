#include "train_temporal/data/stored_rows.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>

#include "common/cli/error.h"
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
  // The loop has no branch per value, so that the compiler makes it one of vectors.
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

}  // namespace coldframe::temporal
