// A validated GPU engine. It uses our own kernels and libraries whose algorithms depend on the card
// and on every shape, so a job checks its results before use, and continues without it if it fails.
#pragma once

#include <future>
#include <memory>
#include <string>

#include "common/torch/precision.h"
#include "extract/vit/backbone.h"
#include "extract/vit/gpu/engine.h"

namespace coldframe::vit::gpu {

class GuardedEngine {
 public:
  // `check`: frames of the input; `exact` [n, D]: their features in fp32 on the CPU, awaited after
  // the engine has computed its own; not valid: no comparison.
  GuardedEngine(std::unique_ptr<Engine> engine, const CheckInput& check,
                std::shared_future<torch::Tensor> exact);

  // The same as Engine's. Undefined once the engine has failed: from then on the caller uses
  // another implementation. c10::OutOfMemoryError.
  torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor& levels);
  torch::Tensor forward_images(const torch::Tensor& images);

  // Compares under the job's conditions: with `batch` rows, which it expects from now on
  // (Engine::expect), once launched and once replayed from its CUDA graph. If the engine deviates,
  // switches to exact computation (Engine::compute_exactly) and compares both again.
  void expect(std::int64_t batch, bool stays = true);
  void check();  // where none is expected yet, by one pass over the check's frames alone

  // Why the engine is disabled: its exception, or its deviation; "" while enabled. Sticky CUDA
  // errors recur in whatever computes next.
  const std::string& failure() const { return failure_; }
  bool strays() const { return strays_; }  // rather than threw

  const Engine& engine() const { return *engine_; }
  void release_memory() { engine_->release_memory(); }

 private:
  template <class Forward>
  torch::Tensor guarded(const Forward& forward);

  std::unique_ptr<Engine> engine_;
  torch::Tensor frames_, levels_;  // of the check, on the device
  std::shared_future<torch::Tensor> exact_;
  std::string failure_;
  bool strays_ = false;
};

// Decides whether to use the GPU engine for a model.

// The engine for a model of float weights; null, with the reason in the log, where there is none:
// in a build without CUDA kernels and for architectures that it refuses. `checked`: a later check
// can revert optimisations that round more.
std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model,
                                    const BackboneOptions& options, const torch::Device& device,
                                    Precision precision, bool checked);

}  // namespace coldframe::vit::gpu
