// Elementary functions on GCC's vector types. Included by kernels.cpp between the #pragma
// GCC target of an instruction set and the pragma's end, in a namespace of that set's, so that
// each has its own copy: no #pragma once, no includes.

using Float __attribute__((vector_size(kVectorBytes), aligned(4), may_alias)) = float;
using Int __attribute__((vector_size(kVectorBytes), aligned(4), may_alias)) = std::int32_t;
using Short __attribute__((vector_size(kVectorBytes / 2), aligned(2), may_alias)) = std::uint16_t;
constexpr std::int64_t kLanes = kVectorBytes / 4;

// x − 0 is x, also for −0, so that the compiler is left with the broadcast alone.
inline Float broadcast(float x) {
  return x - Float{};
}

inline Float broadcast_word(Word word) {
  return reinterpret_cast<Float>(Int{} + static_cast<std::int32_t>(word));
}

inline Float load(const float* from) {
  return *reinterpret_cast<const Float*>(from);
}

inline void store(float* to, Float x) {
  *reinterpret_cast<Float*>(to) = x;
}

// x in the first `count` lanes, `rest` in the others.
inline Float first_lanes(Float x, std::int64_t count, Float rest) {
  Int lane;
  for (int i = 0; i < kLanes; ++i) lane[i] = i;
  return lane < static_cast<std::int32_t>(count) ? x : rest;
}

inline float sum_of(Float x) {
  float sum = 0;
  for (int i = 0; i < kLanes; ++i) sum += x[i];
  return sum;
}

inline float max_of(Float x) {
  float largest = x[0];
  for (int i = 1; i < kLanes; ++i) largest = x[i] > largest ? x[i] : largest;
  return largest;
}

// bf16 numbers are a float's upper half, rounded to the nearest, ties to even; NaN stays NaN.
inline std::uint16_t to_bf16(float x) {
  if (x != x) return 0x7fc0;
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

inline void store(std::uint16_t* to, Float x) {
  const Int bits = reinterpret_cast<Int>(x);
  const Int rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
  *reinterpret_cast<Short*>(to) = __builtin_convertvector(x == x ? rounded : Int{} + 0x7fc0, Short);
}

inline Float load(const std::uint16_t* from) {
  const Int bits = __builtin_convertvector(*reinterpret_cast<const Short*>(from), Int);
  return reinterpret_cast<Float>(bits << 16);
}

inline float load_one(const float* from) {
  return *from;
}

inline float load_one(const std::uint16_t* from) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(*from) << 16);
}

inline void store_one(float* to, float x) {
  *to = x;
}

inline void store_one(std::uint16_t* to, float x) {
  *to = to_bf16(x);
}

// 2^x for x ≤ 0, relative error 1e-7; 0 below −126. 2^x = 2^n · 2^f with |f| ≤ 1/2, and a
// polynomial (least maximum, found by Lawson's iteration) for 2^f.
inline Float exp2_of_negative(Float x) {
  const Float low = broadcast(-126.0f);
  const Float clamped = x < low ? low : x;
  const Float shifted = clamped + 12582912.0f;  // 1.5 · 2^23: its last bit counts ones
  const Float fraction = clamped - (shifted - 12582912.0f);
  Float power = broadcast(1.327646430581808e-3f);
  power = power * fraction + 9.675540961325169e-3f;
  power = power * fraction + 5.550713464617729e-2f;
  power = power * fraction + 2.4022120237350464e-1f;
  power = power * fraction + 6.931469440460205e-1f;
  power = power * fraction + 1.0000001192092896f;
  const Int scaled = reinterpret_cast<Int>(power) + (reinterpret_cast<Int>(shifted) << 23);
  return x < low ? Float{} : reinterpret_cast<Float>(scaled);
}

// 1 / (1 + e^−x).
inline Float sigmoid(Float x) {
  const Float power = exp2_of_negative((x < 0.0f ? x : -x) * 1.4426950408889634f);  // e^−|x|
  return (x < 0.0f ? power : broadcast(1.0f)) / (1.0f + power);
}

// x·Φ(x), the exact GELU, to 1e-6. Φ(x) = 1/2 + x·p(x²) with a polynomial p (least maximum of the
// result's error, by Lawson's iteration) up to |x| = 5.5, where x·Φ(−x) has fallen to 1e-7.
struct Gelu {
  static Float of(Float x) {
    constexpr float kEnd = 5.5f;
    const Float low = x < -kEnd ? broadcast(-kEnd) : x;
    const Float clamped = low > kEnd ? broadcast(kEnd) : low;
    const Float s = clamped * clamped * (2 / (kEnd * kEnd)) - 1.0f;  // in [−1, 1]
    constexpr float kCoefficients[] = {
        -9.117206791415811e-4f,  2.592239761725068e-3f,  -2.5182815734297037e-3f,
        2.4754018522799015e-3f,  -6.292646750807762e-3f, 1.1425220407545567e-2f,
        -1.5373286791145802e-2f, 2.0029570907354355e-2f, -2.5941889733076096e-2f,
        3.2113589346408844e-2f,  -3.880469501018524e-2f, 4.7735605388879776e-2f,
        -6.417197734117508e-2f,  1.2855194509029388e-1f};
    Float p = broadcast(kCoefficients[0]);
#pragma GCC unroll 16
    for (int i = 1; i < 14; ++i) p = p * s + kCoefficients[i];
    return low * (clamped * p + 0.5f);
  }
};

// GELU by tanh: x · (1 + tanh(u)) / 2 = x · σ(2·u).
struct GeluTanh {
  static Float of(Float x) {
    return x * sigmoid(1.5957691216057308f * (x + 0.044715f * x * x * x));  // 2 · √(2 / π)
  }
};

struct QuickGelu {
  static Float of(Float x) { return x * sigmoid(1.702f * x); }
};

struct Silu {
  static Float of(Float x) { return x * sigmoid(x); }
};
