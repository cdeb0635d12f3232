#include "extract/vit/gpu/choose.h"

#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/cuda/library.h"

namespace coldframe::vit::gpu {

namespace {

// Names the features that the engine does not make of tokens.
std::optional<std::string> beyond_pooling(const FeatureOptions& options,
                                          const Architecture& architecture) {
  if (!of_last_block_alone(options, architecture))
    return "its features are not of the last block alone";
  if (options.projection) return "its features are projected";
  if (options.cut > 0) return concat("what enters block ", options.cut, " is to be kept");
  if (options.pooling == Pooling::kNone)
    return concat("its pooling (", to_string(options.pooling), ")");
  return std::nullopt;
}

}  // namespace

std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model,
                                    const BackboneOptions& options, const torch::Device& device,
                                    Precision precision) {
  const cuda::GpuKernels* const kernels = cuda::kernels();
  if (!kernels) {
    log_warning(
        concat("the GPU computes with LibTorch's operators, which takes longer: no CUDA kernels (",
               cuda::kernel_library().problem,
               "); build with CUDA 13, which common/bootstrap installs where there is a GPU"));
    return nullptr;
  }
  auto reason = refusal(model.architecture);
  if (!reason) reason = beyond_pooling(options.features, model.architecture);
  if (!reason && !options.image_size.is_square()) reason = "its images are oblong";
  if (reason) {
    log_warning(concat("the GPU engine cannot compute this backbone: ", *reason,
                       "; computing with LibTorch's operators"));
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
