#include "extract/vit/engine/choose.h"

#include "common/log.h"
#include "common/text.h"

namespace coldframe::vit::engine {

bool bf16_is_quicker() {
#if defined(__x86_64__)
  return avx512_bf16_kernels() && __builtin_cpu_is("amd");
#else
  return false;
#endif
}

std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model, std::int64_t image_size,
                                    Precision precision) {
  if (precision == Precision::kFp16) {
    log_info("the CPU engine has no fp16; computing with LibTorch's operators");
    return nullptr;
  }
  const bool bf16 = precision == Precision::kBf16;
  const Kernels& kernels =
      bf16 && bf16_is_quicker() ? *avx512_bf16_kernels() : fastest_fp32_kernels();
  if (const auto reason = refusal(model.architecture, kernels)) {
    log_warning(concat("the CPU engine cannot compute this backbone: ", *reason,
                       "; computing with LibTorch's operators"));
    return nullptr;
  }
  return std::make_unique<Engine>(model, image_size, kernels,
                                  bf16 ? torch::kBFloat16 : torch::kFloat32);
}

}  // namespace coldframe::vit::engine
