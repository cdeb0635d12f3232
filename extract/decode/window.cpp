#include "extract/decode/window.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {

namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw ConfigError(concat("--window '", text, "': expected ", window_help()));
}

// One half of "L%,H%".
double parse_percent(std::string_view part, std::string_view whole) {
  double value = 0;
  if (!part.ends_with('%') || !parse_double(trim(part.substr(0, part.size() - 1)), value) ||
      !(value >= 0 && value <= 100)) {
    refuse(whole);
  }
  return value;
}

}  // namespace

std::string_view window_help() {
  return "'file' (what the file says), 'C,W' (center and width, e.g. 40,400) or 'L%,H%' "
         "(percentiles, e.g. 1%,99%)";
}

Window parse_window(std::string_view text) {
  Window window;
  if (text == "file") return window;
  const auto parts = split(text, ',');
  if (parts.size() != 2) refuse(text);
  const auto first = trim(parts[0]), second = trim(parts[1]);
  if (text.find('%') != std::string_view::npos) {
    window.kind = Window::Kind::kPercentiles;
    window.low = parse_percent(first, text);
    window.high = parse_percent(second, text);
    if (window.low >= window.high) refuse(text);
    return window;
  }
  window.kind = Window::Kind::kFixed;
  if (!parse_double(first, window.center) || !parse_double(second, window.width) ||
      !std::isfinite(window.center) || !std::isfinite(window.width) || window.width <= 0) {
    refuse(text);
  }
  return window;
}

std::uint8_t to_level(double value, const ValueRange& range) {
  if (!(value > range.low)) return 0;
  if (value >= range.high) return 255;
  return static_cast<std::uint8_t>(
      std::floor(255.0 * ((value - range.low) / (range.high - range.low)) + 0.5));
}

namespace {

constexpr int kDigitBits = 16;

// Keys of integers are these; those of more than 32 bits are searched as float64.
bool is_integer(DType type) {
  return !is_float(type) && bytes_of(type) <= 4;
}

// Signed and unsigned together span one bit more than either.
int key_bits(DType type) {
  if (is_integer(type)) return bytes_of(type) <= 2 ? 17 : 33;
  return type == DType::kFp32 ? 32 : 64;
}

// Floats order as their bits do once negative ones are inverted and the sign bit is flipped.
template <typename Float, typename Bits>
Bits float_key(Float value) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  const Bits bits = std::bit_cast<Bits>(value);
  return bits & kSign ? ~bits : bits | kSign;
}

template <typename Float, typename Bits>
double float_of_key(Bits key) {
  constexpr Bits kSign = Bits{1} << (sizeof(Bits) * 8 - 1);
  return double{std::bit_cast<Float>(key & kSign ? key & ~kSign : ~key)};
}

std::int64_t key_offset(DType type) {
  return std::int64_t{1} << (bytes_of(type) <= 2 ? 15 : 31);
}

std::uint64_t to_key(double value, DType type) {
  if (is_integer(type))
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(value) + key_offset(type));
  return type == DType::kFp32 ? float_key<float, std::uint32_t>(static_cast<float>(value))
                              : float_key<double, std::uint64_t>(value);
}

double of_key(std::uint64_t key, DType type) {
  if (is_integer(type))
    return static_cast<double>(static_cast<std::int64_t>(key) - key_offset(type));
  return type == DType::kFp32 ? float_of_key<float>(static_cast<std::uint32_t>(key))
                              : float_of_key<double>(key);
}

// One value that is searched: its rank among the keys that begin with `prefix`.
struct Wanted {
  std::uint64_t rank = 0, prefix = 0;
};

// The keys that begin with `prefix`, counted by their next digit.
struct Histogram {
  std::uint64_t prefix = 0;
  std::vector<std::uint64_t> counts;
};

void narrow(Wanted& wanted, const Histogram& histogram, int digit_bits) {
  std::uint64_t digit = 0;
  while (wanted.rank >= histogram.counts[digit]) wanted.rank -= histogram.counts[digit++];
  wanted.prefix = wanted.prefix << digit_bits | digit;
}

class Selection {
 public:
  Selection(const ValuePass& pass, DType type) : pass_(pass), type_(type) {
    left_ = key_bits(type);
    const int first = left_ % kDigitBits + (left_ >= kDigitBits ? kDigitBits : 0);
    histograms_ = count({0}, first);
    for (const std::uint64_t each : histograms_.front().counts) total_ += each;
    digit_bits_ = first;
  }

  std::uint64_t total() const { return total_; }

  // The values of these ranks, from 0 on.
  std::vector<double> values(const std::vector<std::uint64_t>& ranks);

 private:
  std::vector<Histogram> count(const std::vector<std::uint64_t>& prefixes, int digit_bits);

  const ValuePass& pass_;
  DType type_;
  int left_ = 0, digit_bits_ = 0;  // bits of the key that no pass has counted yet
  std::uint64_t total_ = 0;
  std::vector<Histogram> histograms_;
};

std::vector<Histogram> Selection::count(const std::vector<std::uint64_t>& prefixes,
                                        int digit_bits) {
  std::vector<Histogram> histograms;
  for (const std::uint64_t prefix : prefixes) {
    histograms.push_back({prefix, std::vector<std::uint64_t>(std::size_t{1} << digit_bits)});
  }
  left_ -= digit_bits;
  const std::uint64_t mask = (std::uint64_t{1} << digit_bits) - 1;
  pass_([&](std::span<const double> block) {
    for (const double value : block) {
      if (!std::isfinite(value)) continue;
      const std::uint64_t key = to_key(value, type_) >> left_;
      for (Histogram& histogram : histograms) {
        if (key >> digit_bits == histogram.prefix) ++histogram.counts[key & mask];
      }
    }
  });
  return histograms;
}

std::vector<double> Selection::values(const std::vector<std::uint64_t>& ranks) {
  std::vector<Wanted> wanted;
  for (const std::uint64_t rank : ranks) wanted.push_back({rank, 0});
  for (;;) {
    std::vector<std::uint64_t> prefixes;
    for (Wanted& each : wanted) {
      narrow(each,
             *std::find_if(histograms_.begin(), histograms_.end(),
                           [&](const Histogram& h) { return h.prefix == each.prefix; }),
             digit_bits_);
      if (std::find(prefixes.begin(), prefixes.end(), each.prefix) == prefixes.end()) {
        prefixes.push_back(each.prefix);
      }
    }
    if (left_ == 0) break;
    digit_bits_ = kDigitBits;
    histograms_ = count(prefixes, digit_bits_);
  }
  std::vector<double> values;
  for (const Wanted& each : wanted) values.push_back(of_key(each.prefix, type_));
  return values;
}

// Interpolates as numpy does, which keeps the result monotone in `fraction`.
double interpolate(double a, double b, double fraction) {
  return fraction < 0.5 ? a + (b - a) * fraction : b - (b - a) * (1 - fraction);
}

}  // namespace

std::optional<ValueRange> percentile_range(const ValuePass& pass, DType type,
                                           const Rescale& rescale, const Window& window) {
  Selection selection(pass, type);
  if (selection.total() == 0) return std::nullopt;
  const std::uint64_t last = selection.total() - 1;
  std::vector<std::uint64_t> ranks;
  std::array<double, 2> fractions{};
  for (const std::size_t i : {0u, 1u}) {
    const double position = (i == 0 ? window.low : window.high) / 100 * static_cast<double>(last);
    const auto lower = std::min(static_cast<std::uint64_t>(position), last);
    fractions[i] = position - static_cast<double>(lower);
    for (const std::uint64_t rank : {lower, std::min(lower + 1, last)}) {
      ranks.push_back(rescale.slope < 0 ? last - rank : rank);
    }
  }
  const std::vector<double> raw = selection.values(ranks);
  return ValueRange{interpolate(rescale(raw[0]), rescale(raw[1]), fractions[0]),
                    interpolate(rescale(raw[2]), rescale(raw[3]), fractions[1])};
}

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
