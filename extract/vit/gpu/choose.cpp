#include "extract/vit/gpu/choose.h"

#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/cuda/library.h"

namespace coldframe::vit::gpu {

std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model,
                                    const BackboneOptions& options, const torch::Device& device,
                                    Precision precision) {
  const cuda::GpuKernels* const kernels = cuda::kernels();
  if (!kernels) {
    log_info(concat("no CUDA kernels (", cuda::kernel_library().problem,
                    "): computing with LibTorch's operators"));
    return nullptr;
  }
  if (const auto reason = refusal(model.architecture)) {
    log_warning(concat("the GPU engine cannot compute this backbone: ", *reason,
                       "; computing with LibTorch's operators"));
    return nullptr;
  }
  if (!options.image_size.is_square()) {
    log_warning("the GPU engine takes square images; computing with LibTorch's operators");
    return nullptr;
  }
  EngineOptions chosen;
  chosen.device = device;
  chosen.type = scalar_type(precision);
  chosen.pooling = options.features.pooling;
  chosen.image_size = options.image_size.height;
  return std::make_unique<Engine>(model, chosen, *kernels, cuda_graphs());
}

}  // namespace coldframe::vit::gpu
