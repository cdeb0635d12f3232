#include "extract/vit/gpu/choose.h"

#include <algorithm>

#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "extract/cuda/library.h"

namespace coldframe::vit::gpu {

GuardedEngine::GuardedEngine(std::unique_ptr<Engine> engine, const CheckInput& check,
                             std::shared_future<torch::Tensor> exact)
    : engine_(std::move(engine)), exact_(std::move(exact)) {
  if (!exact_.valid()) return;
  frames_ = check.frames.to(engine_->options().device);
  levels_ = check.levels.to(engine_->options().device);
}

template <class Forward>
torch::Tensor GuardedEngine::guarded(const Forward& forward) {
  if (!failure_.empty()) return {};
  try {
    return forward();
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::exception& error) {
    failure_ = concat("the GPU engine failed: ", first_line(error));
    release_memory();
    return {};
  }
}

torch::Tensor GuardedEngine::forward_frames(const torch::Tensor& frames,
                                            const torch::Tensor& levels) {
  return guarded([&] { return engine_->forward_frames(frames, levels); });
}

torch::Tensor GuardedEngine::forward_images(const torch::Tensor& images) {
  return guarded([&] { return engine_->forward_images(images); });
}

void GuardedEngine::expect(std::int64_t batch, bool stays) {
  bool changed = false;
  guarded([&] {
    changed = engine_->expect(batch, stays);
    return torch::Tensor();
  });
  if (changed) check();
}

void GuardedEngine::check() {
  if (!exact_.valid()) return;
  const std::int64_t batch = engine_->expected();
  const int passes = batch > 0 ? 2 : 1;  // the second one is replayed
  // More rows than the job's batch would be computed without the recording.
  const std::int64_t rows = batch > 0 ? std::min(batch, frames_.size(0)) : frames_.size(0);
  for (int pass = 0; pass < passes; ++pass) {
    const torch::Tensor found = guarded([&] {
      const StageTimer timer(engine_->options().times.get(), pass == 0 ? "check" : "graphs");
      return engine_->forward_frames(frames_.narrow(0, 0, rows), levels_)
          .to(torch::kCPU, torch::kFloat32);
    });
    if (!found.defined()) return;
    const torch::Tensor& exact = exact_.get();
    const torch::Tensor features = found.narrow(1, 0, exact.size(1));
    const double cosine =
        at::cosine_similarity(features, exact.narrow(0, 0, rows)).min().item<double>();
    if (cosine >= kMinCosine) continue;              // not so for NaN
    if (engine_->compute_exactly()) return check();  // from the first pass on
    strays_ = true;
    failure_ = strays_by(cosine, engine_->options().device);
    return release_memory();
  }
}

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
  if (!reason && model.architecture.takes_clips()) reason = "it takes clips";
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
