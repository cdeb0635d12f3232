// Counter-based random numbers: a value depends on its key and its position only, never on how many
// were drawn elsewhere, so that results do not depend on threads, ranks or the order of loops.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace coldframe {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): a bijection that mixes every bit. This is
// its home; vectors of a processor (kernels/kernels.h) and of a device (models/device_draws.cpp)
// compute the same bits.
inline constexpr std::uint64_t kMixFactors[] = {0xbf58476d1ce4e5b9, 0x94d049bb133111eb};
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * kMixFactors[0];
  x = (x ^ (x >> 27)) * kMixFactors[1];
  return x ^ (x >> 31);
}

class CounterRandom {
 public:
  // Example: CounterRandom({seed, resample, fold}).
  constexpr CounterRandom(std::initializer_list<std::uint64_t> key) {
    for (std::uint64_t part : key) key_ = mix_bits((key_ + kStep) ^ mix_bits(part + kStep));
  }

  constexpr std::uint64_t next() { return mix_bits(key_ + kStep * ++counter_); }

  // Uniform in 0 … n−1 (n > 0), by the high half of a 128-bit product; its bias is below n / 2^64.
  std::uint64_t below(std::uint64_t n) {
    __extension__ typedef unsigned __int128 Wide;
    return static_cast<std::uint64_t>((static_cast<Wide>(next()) * n) >> 64);
  }

  // Uniform in [0, 1), a multiple of 2^-53.
  constexpr double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }

  template <typename T>
  void shuffle(std::vector<T>& items) {  // Fisher–Yates
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  static constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15ull;  // 2^64 / golden ratio, odd
  std::uint64_t key_ = 0, counter_ = 0;
};

}  // namespace coldframe
