#include "train_temporal/data/stored_rows.h"

#include <c10/util/Half.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/cli/error.h"
#include "common/text/text.h"

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
                    std::size_t columns) {
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
    throw DataError(concat("exam '", exam.id, "': feature ", column, " of frame ", frame, " is ",
                           shown(value),
                           ", expected a finite number; run `coldframe cache verify` and extract "
                           "this exam again"));
  }
}

}  // namespace

std::size_t row_bytes(const cache::CacheReader& cache) {
  const bool half = cache.storage() == cache::StorageType::kFloat16;
  return static_cast<std::size_t>(cache.dimension()) * (half ? 2 : 4);
}

std::int64_t copy_present_rows(const cache::CacheReader& cache, std::size_t exam,
                               std::span<const std::byte> stored, std::byte* to) {
  const cache::ExamInfo& info = cache.exams()[exam];
  const bool half = cache.storage() == cache::StorageType::kFloat16;
  const auto columns = static_cast<std::size_t>(cache.dimension());
  const std::size_t bytes = row_bytes(cache);
  std::int64_t rows = 0;
  for (std::size_t frame = 0; frame < info.frames(); ++frame) {
    if (!info.present[frame]) continue;
    const std::byte* row = stored.data() + frame * bytes;
    if (half) {
      require_finite<std::uint16_t>(info, frame, row, columns);
    } else {
      require_finite<float>(info, frame, row, columns);
    }
    std::memcpy(to, row, bytes);
    to += bytes;
    ++rows;
  }
  return rows;
}

}  // namespace coldframe::temporal
