#include "extract/frames/percentiles.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

namespace coldframe::frames {
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

}  // namespace coldframe::frames
