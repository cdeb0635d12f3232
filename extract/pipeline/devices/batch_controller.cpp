#include "extract/pipeline/devices/batch_controller.h"

#include <algorithm>

#include "common/text/text.h"

namespace coldframe::extract {
namespace {

constexpr int kBatchesPerSize = 3;
constexpr double kWorthwhile = 1.05;

}  // namespace

BatchController::BatchController(const BatchLimits& limits)
    : limits_(limits),
      size_(limits.batch > 0 ? limits.batch
                             : std::min(std::max(kFirst, limits.first), limits.most)),
      settled_(limits.batch > 0 || size_ * 2 > limits.most) {}

void BatchController::succeeded(std::int64_t frames, double seconds, std::uint64_t peak) {
  if (settled_ || frames != size_) return;  // a last, smaller batch tells nothing
  if (seconds > 0) rate_ = std::max(rate_, static_cast<double>(frames) / seconds);
  peak_ = std::max(peak_, peak);
  if (++batches_ == kBatchesPerSize) grow_or_settle();
}

void BatchController::grow_or_settle() {
  const bool paid = rate_before_ == 0 || rate_ >= kWorthwhile * rate_before_;
  if (!paid) {
    size_ /= 2;
    settled_ = true;
  } else if (size_ * 2 > limits_.most || !next_fits()) {
    settled_ = true;
  } else {
    size_ *= 2;
    rate_before_ = rate_;
    peak_before_ = peak_;
    rate_ = 0;
    peak_ = 0;
    batches_ = 0;
  }
}

// Memory grows by a constant amount per frame, above what the weights take.
bool BatchController::next_fits() const {
  if (limits_.memory_budget == 0) return true;
  const std::uint64_t per_doubling =
      peak_before_ == 0 || peak_ < peak_before_ ? peak_ : 2 * (peak_ - peak_before_);
  return peak_ + per_doubling <= limits_.memory_budget;
}

void BatchController::out_of_memory(std::int64_t frames) {
  size_ = std::max<std::int64_t>(1, std::min(size_, frames / 2));
  settled_ = true;
  halved_ = true;
}

std::string BatchController::learnt() const {
  return concat(plural(static_cast<std::size_t>(size_), "frame"), " per forward pass",
                halved_              ? " (as many as fit)"
                : limits_.batch == 0 ? (settled_ ? " (auto)" : " (auto, still growing)")
                                     : "");
}

}  // namespace coldframe::extract
