// An attention beside LibTorch's own, and a time by which a test says how quick it is.
#pragma once

#include <c10/util/Exception.h>

#include "extract/vit/gpu/engine.h"

namespace coldframe::vit::gpu {

struct FakeAttention {
  enum class Does { kRight, kStrays, kThrows, kFindsNoMemory };

  inline static Does does = Does::kRight;
  inline static int seconds = 1;  // of passes with it; those without take 2
  inline static int calls = 0;

  static void use(EngineOptions& options, Does what, int takes = 1) {
    does = what, seconds = takes, calls = 0;
    options.attention = compute;
    options.cpu_time = [] {
      static int now = 0, before = 0;
      now += calls == before ? 2 : seconds;
      before = calls;
      return std::chrono::steady_clock::time_point(std::chrono::seconds(now));
    };
  }

  static torch::Tensor compute(const torch::Tensor& q, const torch::Tensor& k,
                               const torch::Tensor& v) {
    ++calls;
    TORCH_CHECK(does != Does::kThrows, "no plan for this shape");
    TORCH_CHECK_WITH(OutOfMemoryError, does != Does::kFindsNoMemory, "CUDA out of memory");
    if (does == Does::kStrays) return torch::full_like(q, 1e3);
    return at::scaled_dot_product_attention(q, k, v);
  }
};

}  // namespace coldframe::vit::gpu
