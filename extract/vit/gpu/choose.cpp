#include "extract/vit/gpu/choose.h"

#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/cuda/library.h"

namespace coldframe::vit::gpu {

std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model,
                                    const BackboneOptions& options, const torch::Device& device,
                                    Precision precision, bool checked) {
  const cuda::GpuKernels* const kernels = cuda::kernels();
  if (!kernels) {
    log_warning(
        concat("the GPU computes with LibTorch's operators, which takes longer: no CUDA kernels (",
               cuda::kernel_library().problem,
               "); build with CUDA 13, which common/bootstrap installs where there is a GPU"));
    return nullptr;
  }
  auto reason = refusal(model.architecture);
  if (!reason && !options.image_size.is_square()) reason = "its images are oblong";
  if (reason) {
    log_warning(concat("the GPU engine cannot compute this backbone: ", *reason,
                       "; computing with LibTorch's operators"));
    return nullptr;
  }
  EngineOptions chosen;
  chosen.device = device;
  chosen.type = scalar_type(precision);
  chosen.features = options.features;
  chosen.image_size = options.image_size.height;
  chosen.times = options.times;
  if (precision != Precision::kFp32) {
    chosen.attention = cudnn_attention;
    chosen.gelu_in_product = checked && !options.named_precision;
    // Later sums may exceed float16's range where the checked ones do not.
    if (chosen.gelu_in_product && precision == Precision::kBf16) chosen.residual = chosen.type;
  }
  return std::make_unique<Engine>(model, chosen, *kernels, cuda_graphs());
}

}  // namespace coldframe::vit::gpu
