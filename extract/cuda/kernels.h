// The CUDA kernels of extraction and their CPU twins as one table of plain C functions: no
// LibTorch. libcoldframe_cuda.so holds the kernels and is opened at run time (library.h);
// tests/extract/cuda/twin.h has the same table for the CPU, where tests run what the GPU runs.
//  All pointers are on the device that computes, at least 16-byte aligned; rows are contiguous.
// Kernels are asynchronous on `stream` (a cudaStream_t; the twins ignore it) and on the current
// device. Elements are kFp32, kBf16 or kFp16. Every function returns a cudaError_t, 0 for success.
#pragma once

#include <cstdint>

#include "common/numbers/dtype.h"

namespace coldframe::cuda {

// Converts uint8 frames to normalised patches for the patch embedding's matrix product: row (image,
// patch), column (channel, line, pixel). If patches are as large as the frame, these are its
// normalised planes.
struct PatchArguments {
  const std::uint8_t* frames;  // [batch, size, size, 3]
  const float* levels;         // [3, 256]: normalised value of each level
  void* patches;  // [batch · (size / patch)², pitch]; columns from 3·patch² are left
  std::int64_t batch, size, patch, pitch;
  DType element;  // of `patches`
};

// Widths of rows that the two norm kernels take: a multiple of 4, at most this.
constexpr std::int64_t kMaxWidth = 2048;

// LayerNorm of x, times weight, plus bias; null bias: 0.
struct NormFactors {
  const float *weight, *bias;  // [width]
  float epsilon;
  bool centred;  // false: RMSNorm
};

// sum = x + gamma · (y + y_bias), then z = the norm of it, row by row.
struct ResidualNormArguments {
  const void* x;        // [rows, width] of `residual`
  const void* y;        // [rows, width] of `element`
  const float* y_bias;  // [width], null: 0
  const float* gamma;   // [width], LayerScale, null: 1
  NormFactors norm;
  void* sum;  // [rows, width] of `residual`; it may be x
  void* z;    // [rows, width] of `element`
  std::int64_t rows, width;
  DType residual, element;
};

// The tokens that the first block starts from and their norm: sum[b, t] = start[t], plus
// y[b, t − prefix] for the patches after the `prefix` other tokens; z = the norm of it.
struct EmbedNormArguments {
  const float* start;  // [tokens, width]
  const void* y;       // [batch · (tokens − prefix), width] of `element`
  NormFactors norm;
  void* sum;  // [batch · tokens, width] of `residual`
  void* z;    // [batch · tokens, width] of `element`
  std::int64_t batch, tokens, prefix, width;
  DType residual, element;
};

enum class Function : int { kGelu, kGeluTanh, kQuickGelu, kSilu };  // GELU is the exact one

// out = f(x + bias). With gates x has rows of gates, then values, and out = f(gates) · values.
struct ActivationArguments {
  const void* x;             // [rows, width] of `element`, or [rows, 2·width]
  const float* bias;         // of a row of x, null: 0
  void* out;                 // [rows, width] of `element`; without gates it may be x
  std::int64_t rows, width;  // a multiple of 8
  Function function;
  bool gated;
  DType element;
};

// Turns the patches' tokens of x in place: of each of a row's first `heads` heads of 2·half numbers
// the pairs i and i + half, by angles whose sines and cosines are given; head h takes those of
// table h modulo `tables`. At most 2³² − 1 pairs.
struct RotateArguments {
  void* x;                                     // [batch · tokens] rows of `element`
  const float *sine, *cosine;                  // [tables, tokens − prefix, half]
  std::int64_t batch, tokens, prefix, stride;  // from row to row, in elements
  std::int64_t heads, half, tables;
  DType element;
};

constexpr int kOutOfMemory = 2;  // cudaErrorMemoryAllocation

struct GpuKernels {
  int (*patches)(const PatchArguments& arguments, void* stream);
  int (*embed_norm)(const EmbedNormArguments& arguments, void* stream);
  int (*residual_norm)(const ResidualNormArguments& arguments, void* stream);
  int (*activation)(const ActivationArguments& arguments, void* stream);
  int (*rotate)(const RotateArguments& arguments, void* stream);
};

}  // namespace coldframe::cuda

// libcoldframe_cuda.so exports this function.
extern "C" const coldframe::cuda::GpuKernels* coldframe_cuda_kernels();
