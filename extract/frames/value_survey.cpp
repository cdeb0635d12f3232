#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "extract/frames/window.h"

namespace coldframe::frames {
namespace {

constexpr std::uint64_t kSign = std::uint64_t{1} << 63;
constexpr std::size_t kMaxBins = std::size_t{1} << 20;  // about 40 MB

// A double's leading bits, in the order of the values.
std::uint32_t key_of(double value, int dropped) {
  const auto bits = std::bit_cast<std::uint64_t>(value + 0.0);  // −0 becomes 0
  return static_cast<std::uint32_t>(((bits & kSign) != 0 ? ~bits : bits | kSign) >> dropped);
}

// The value of that key that is nearest to zero.
double value_of(std::uint32_t key, int dropped) {
  std::uint64_t bits = std::uint64_t{key} << dropped;
  bits = (bits & kSign) != 0 ? bits & ~kSign : ~bits & ~((std::uint64_t{1} << dropped) - 1);
  return std::bit_cast<double>(bits);
}

}  // namespace

void ValueSurvey::add(double value, std::uint64_t count) {
  if (count == 0 || !std::isfinite(value)) return;
  counts_[key_of(value, dropped_bits_)] += count;
  total_ += count;
  least_ = std::min(least_, value);
  greatest_ = std::max(greatest_, value);
  if (counts_.size() > kMaxBins) coarsen();
}

// Comes out as if all values had been added one by one.
void ValueSurvey::add(const ValueSurvey& other) {
  ValueSurvey same = other;
  while (same.dropped_bits_ < dropped_bits_) same.coarsen();
  while (dropped_bits_ < same.dropped_bits_) coarsen();
  for (const auto& [key, count] : same.counts_) counts_[key] += count;
  total_ += same.total_;
  least_ = std::min(least_, same.least_);
  greatest_ = std::max(greatest_, same.greatest_);
  while (counts_.size() > kMaxBins) coarsen();
}

void ValueSurvey::coarsen() {
  ++dropped_bits_;
  std::unordered_map<std::uint32_t, std::uint64_t> coarse;
  for (const auto& [key, count] : counts_) coarse[key >> 1] += count;
  counts_ = std::move(coarse);
}

ValueRange ValueSurvey::range(const Window& window) const {
  if (window.kind == Window::Kind::kFixed) {
    return {window.center - window.width / 2, window.center + window.width / 2};
  }
  if (empty()) return {0, 0};
  if (window.kind == Window::Kind::kFile) return {least_, greatest_};
  std::vector<std::pair<std::uint32_t, std::uint64_t>> bins(counts_.begin(), counts_.end());
  std::sort(bins.begin(), bins.end());
  const auto at_rank = [&](std::uint64_t rank) {
    auto bin = bins.begin();
    for (std::uint64_t before = 0; before + bin->second <= rank; ++bin) before += bin->second;
    return std::clamp(value_of(bin->first, dropped_bits_), least_, greatest_);
  };
  const auto percentile = [&](double percent) {
    const double rank = percent / 100.0 * static_cast<double>(total_ - 1);
    const auto below = std::min(static_cast<std::uint64_t>(rank), total_ - 1);
    const double low = at_rank(below), high = at_rank(std::min(below + 1, total_ - 1));
    return low + (high - low) * (rank - static_cast<double>(below));
  };
  return {percentile(window.low), percentile(window.high)};
}

}  // namespace coldframe::frames
