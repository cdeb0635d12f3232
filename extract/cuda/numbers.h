// The number types of the kernels, for nvcc and for any C++ compiler: stored in 16 or 32 bits,
// computed with as float. Rounding is to the nearest, ties to even, on both.
#pragma once

#include <cstdint>
#include <cstring>

#if defined(__CUDACC__)
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define COLDFRAME_BOTH __host__ __device__ inline
#define COLDFRAME_MEMBER static __host__ __device__
#else
#define COLDFRAME_BOTH inline
#define COLDFRAME_MEMBER static
#endif

namespace coldframe::cuda {

struct Bf16 {
  std::uint16_t bits;
};
struct Fp16 {
  std::uint16_t bits;
};

// `kCount` neighbours in one access.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T values[kCount];
};

template <int kCount, typename T>
COLDFRAME_BOTH Pack<T, kCount> load_pack(const T* from) {
  return *reinterpret_cast<const Pack<T, kCount>*>(from);
}

template <typename T, int kCount>
COLDFRAME_BOTH void store_pack(T* to, const Pack<T, kCount>& pack) {
  *reinterpret_cast<Pack<T, kCount>*>(to) = pack;
}

// Computes what the device has instructions for and C++17 has not.
namespace portable {

inline float float_of(std::uint32_t bits) {
  float x;
  std::memcpy(&x, &bits, sizeof x);
  return x;
}

inline std::uint32_t bits_of(float x) {
  std::uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

inline std::uint16_t to_bf16(float x) {
  if (x != x) return 0x7fff;  // as the device's conversion
  const std::uint32_t bits = bits_of(x);
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
inline std::uint16_t to_fp16(float x) {
  const std::uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, size = bits & 0x7fffffff;
  std::uint32_t half = 0;
  if (size > 0x7f800000) return 0x7fff;  // NaN, as the device's conversion
  if (size >= 0x477ff000)                // 65520 and more round to infinity
    half = 0x7c00;
  else if (size < 0x38800000)  // below 2⁻¹⁴: a sum with 1/2 rounds to multiples of 2⁻²⁴
    half = bits_of(float_of(size) + 0.5f) - bits_of(0.5f);
  else
    half = ((size + 0xfff + (size >> 13 & 1)) >> 13) - (112u << 10);
  return static_cast<std::uint16_t>(sign | half);
}

inline float from_fp16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31;
  const std::uint32_t fraction = half & 0x3ff;
  if (exponent == 0) {
    const float size = static_cast<float>(fraction) * 5.9604644775390625e-8f;  // 2⁻²⁴
    return sign ? -size : size;
  }
  const std::uint32_t wide = exponent == 31 ? 255 : exponent + 112;
  return float_of(sign | wide << 23 | fraction << 13);
}

}  // namespace portable

COLDFRAME_BOTH float float_of_bits(std::uint32_t bits) {
#if defined(__CUDA_ARCH__)
  return __uint_as_float(bits);
#else
  return portable::float_of(bits);
#endif
}

COLDFRAME_BOTH std::uint32_t bits_of_float(float x) {
#if defined(__CUDA_ARCH__)
  return __float_as_uint(x);
#else
  return portable::bits_of(x);
#endif
}

COLDFRAME_BOTH float to_float(float x) {
  return x;
}

COLDFRAME_BOTH float to_float(Bf16 x) {
  return float_of_bits(static_cast<std::uint32_t>(x.bits) << 16);
}

COLDFRAME_BOTH float to_float(Fp16 x) {
#if defined(__CUDA_ARCH__)
  return __half2float(__ushort_as_half(x.bits));
#else
  return portable::from_fp16(x.bits);
#endif
}

// rounded<T>(x): x as a T.
template <typename T>
COLDFRAME_BOTH T rounded(float x);

template <>
COLDFRAME_BOTH float rounded<float>(float x) {
  return x;
}

template <>
COLDFRAME_BOTH Bf16 rounded<Bf16>(float x) {
#if defined(__CUDA_ARCH__)
  return {__bfloat16_as_ushort(__float2bfloat16_rn(x))};
#else
  return {portable::to_bf16(x)};
#endif
}

template <>
COLDFRAME_BOTH Fp16 rounded<Fp16>(float x) {
#if defined(__CUDA_ARCH__)
  return {__half_as_ushort(__float2half_rn(x))};
#else
  return {portable::to_fp16(x)};
#endif
}

}  // namespace coldframe::cuda
