// The GPU engine under watch. It computes by kernels of our own and by libraries whose choices
// depend on the card and on every shape, so a job asks whether it computes rightly before it trusts
// it, and goes on without it when it fails.
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
  // `check`: frames of the input, and `exact` [n, D], their features in fp32 on the CPU, waited for
  // when the engine has computed them; not valid: nothing is compared.
  GuardedEngine(std::unique_ptr<Engine> engine, const CheckInput& check,
                std::shared_future<torch::Tensor> exact);

  // The same as Engine's. Undefined once the engine has failed: then, and in further calls, the
  // caller computes otherwise. c10::OutOfMemoryError.
  torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor& levels);
  torch::Tensor forward_images(const torch::Tensor& images);

  // Compares as the job computes: with `batch` rows, which it expects from now on (Engine::expect),
  // once launched and once replayed from its recording. An engine that strays computes exactly
  // first (Engine::compute_exactly), and both are compared again.
  void expect(std::int64_t batch, bool stays = true);
  void check();  // where none is expected yet, by one pass over the check's frames alone

  // Why the engine computes no more: what it threw, or how far it strays; "" while it does. Errors
  // of CUDA that outlast the call come again, whatever computes next.
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

// Decides whether the GPU engine computes a model.

// The engine for a model of float weights; null, with the reason in the log, where there is none:
// in a build without CUDA kernels and for architectures that it refuses. `checked`: a check follows
// that can take back what rounds more.
std::unique_ptr<Engine> make_engine(const VisionTransformerImpl& model,
                                    const BackboneOptions& options, const torch::Device& device,
                                    Precision precision, bool checked);

}  // namespace coldframe::vit::gpu
