// How the GPU engine computes.
#pragma once

#include <chrono>
#include <memory>

#include "common/system/stage_times.h"
#include "common/torch/tensor.h"
#include "extract/vit/pooling.h"

namespace coldframe::vit::gpu {

// softmax(q·kᵀ / √d)·v, all [B, heads, tokens, d]; throws what it cannot compute.
using Attention = torch::Tensor (*)(const torch::Tensor& q, const torch::Tensor& k,
                                    const torch::Tensor& v);
torch::Tensor cudnn_attention(const torch::Tensor& q, const torch::Tensor& k,
                              const torch::Tensor& v);

struct EngineOptions {
  torch::Device device{torch::kCPU};
  torch::ScalarType type = torch::kBFloat16;  // of products and activations; kFloat, kHalf
  // The blocks add to tensors of this type. In float, sums over many blocks lose nothing; in `type`
  // the norm kernels move fewer bytes.
  torch::ScalarType residual = torch::kFloat;
  // GELU at the end of fc1's product, by tanh whatever the model says, as cuBLAS has it: what fc1
  // gives is neither written nor read once more.
  bool gelu_in_product = false;
  Attention attention = nullptr;  // beside LibTorch's own choice; the quicker one stays
  FeatureOptions features{};
  std::int64_t image_size = 224;
  std::chrono::steady_clock::time_point (*cpu_time)() = std::chrono::steady_clock::now;
  std::shared_ptr<StageTimes> times{};  // as BackboneOptions has them
};

}  // namespace coldframe::vit::gpu
