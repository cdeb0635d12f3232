// uint8 RGB frames to the backbone's normalised input on a CUDA device; the CPU twin is
// preprocess::normalize. Built into libcoldframe_cuda.so, which is opened at run time: a plain C
// interface, no LibTorch.
#pragma once

#include <cstdint>

extern "C" {

// in [batch, size, size, 3] uint8 -> out [batch, 3, size, size] float32 through table [3, 256]
// float32, what each level of each channel becomes (preprocess::normalization_table). All on the
// current device; asynchronous on `stream` (a cudaStream_t). Returns a cudaError_t, 0 for success.
int coldframe_normalize(const std::uint8_t* in, const float* table, float* out, std::int64_t batch,
                        std::int64_t size, void* stream);
}
