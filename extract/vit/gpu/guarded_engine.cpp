#include "extract/vit/gpu/guarded_engine.h"

#include <algorithm>

#include "common/text/text.h"
#include "common/torch/error_text.h"

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
    if (cosine >= kLeastCosine) continue;            // not so for NaN
    if (engine_->compute_exactly()) return check();  // from the first pass on
    strays_ = true;
    failure_ = strays_by(cosine, engine_->options().device);
    return release_memory();
  }
}

}  // namespace coldframe::vit::gpu
