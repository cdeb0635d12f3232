// Chooses the template that computes a kernel by the element types and sizes in its arguments; the
// device and the twin choose alike.
#pragma once

#include "extract/cuda/activations.h"
#include "extract/cuda/rotary.h"

namespace coldframe::cuda {

constexpr int kInvalidValue = 1;  // cudaErrorInvalidValue

template <typename T>
struct Type {
  using type = T;
};

// body(Type<T>()) for the element's T.
template <typename Body>
int with_element(DType element, Body body) {
  switch (element) {
    case DType::kFp32:
      return body(Type<float>());
    case DType::kBf16:
      return body(Type<Bf16>());
    case DType::kFp16:
      return body(Type<Fp16>());
    default:
      return kInvalidValue;
  }
}

// The residual stream is float32 or of the element's type.
template <typename Body>
int with_residual(DType residual, DType element, Body body) {
  return with_element(element, [&](auto t) {
    using T = typename decltype(t)::type;
    if (residual == DType::kFp32) return body(Type<float>(), t);
    return residual == element ? body(Type<T>(), t) : kInvalidValue;
  });
}

template <int kValue>
struct Number {
  static constexpr int value = kValue;
};

// body(Number<kSteps>()) with the fewest steps that cover `width`.
template <typename Body>
int with_steps(std::int64_t width, Body body) {
  if (width < kNormVector || width > kMaxWidth || width % kNormVector != 0) return kInvalidValue;
  const std::int64_t steps = (width + kLaneStep - 1) / kLaneStep;
  if (steps == 1) return body(Number<1>());
  if (steps == 2) return body(Number<2>());
  if (steps == 3) return body(Number<3>());    // ViT-S
  if (steps <= 6) return body(Number<6>());    // ViT-B
  if (steps <= 8) return body(Number<8>());    // ViT-L
  if (steps <= 10) return body(Number<10>());  // ViT-H
  return body(Number<kMaxWidth / kLaneStep>());
}

// body(Type<F>()) for the function's F.
template <typename Body>
int with_function(Function function, Body body) {
  switch (function) {
    case Function::kGelu:
      return body(Type<Gelu>());
    case Function::kGeluTanh:
      return body(Type<GeluTanh>());
    case Function::kQuickGelu:
      return body(Type<QuickGelu>());
    case Function::kSilu:
      return body(Type<Silu>());
  }
  return kInvalidValue;
}

// body(Number<kRun>(), pairs) with the longest run that divides heads and keeps stores aligned.
template <typename Body>
int with_run(const RotateArguments& a, Body body) {
  const std::int64_t pairs = a.batch * (a.tokens - a.prefix) * a.heads * a.half;
  if (a.half < 1 || a.tables < 1 || a.stride < 2 * a.heads * a.half || pairs > UINT32_MAX)
    return kInvalidValue;
  const auto fits = [&](int run) { return a.half % run == 0 && a.stride % run == 0; };
  if (fits(4)) return body(Number<4>(), pairs);
  if (fits(2)) return body(Number<2>(), pairs);
  return body(Number<1>(), pairs);
}

// body(Number<kRun>()) with the longest run that divides patches and keeps stores aligned.
template <typename Body>
int with_run(const PatchArguments& a, Body body) {
  if (a.patch < 1 || a.size % a.patch != 0 || a.pitch < 3 * a.patch * a.patch) return kInvalidValue;
  if (a.batch * a.size * a.size > INT32_MAX) return kInvalidValue;
  const auto fits = [&](int run) { return a.patch % run == 0 && a.pitch % run == 0; };
  if (fits(8)) return body(Number<8>());
  if (fits(4)) return body(Number<4>());
  if (fits(2)) return body(Number<2>());
  return body(Number<1>());
}

}  // namespace coldframe::cuda
