// The GPU engine: the model of vit.h, interpreted by the operations of operations.h, replayed as a
// CUDA Graph. Written against LibTorch's operators and a table of kernels, so that the tests run
// all of it on the CPU with the kernels' twins.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "common/torch/graphs.h"
#include "extract/vit/gpu/operations.h"

namespace coldframe::vit::gpu {

// Why the engine cannot compute this architecture; empty when it can.
std::optional<std::string> refusal(const Architecture& architecture);

class Engine {
 public:
  // Casts the float weights of `model` to the device once; the model is no longer needed then.
  // ConfigError if refusal(). `kernels` must compute on the device.
  Engine(const VisionTransformerImpl& model, const EngineOptions& options,
         const cuda::GpuKernels& kernels, MakeGraph make_graph);
  Engine(const Engine&) = delete;

  // frames [B, S, S, 3] uint8 and levels [3, 256] float, what each level of each channel becomes,
  // both on the device -> [B, features and what is kept] float there, valid until the next call.
  // Asynchronous on the current stream. c10::OutOfMemoryError, after which all memory but the
  // weights' is given back; SystemError when a kernel fails.
  torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor& levels);

  // images [B, 3, S, S] float, normalised, on the device -> the same.
  torch::Tensor forward_images(const torch::Tensor& images);

  // Measures each kind of layer in a pass over `batch` images, launched and not replayed; it
  // computes whatever lies in memory. Behind forward_frames(), which has warmed libraries up. Waits
  // for the device.
  std::vector<LayerCost> measure_layers(std::int64_t batch);

  // Gives back all memory but the weights'; the next call takes what it needs.
  void release_memory();

  // Batches of so many images come from now on: smaller ones are filled up to it, so that libraries
  // see one shape, and the pass is recorded. Before, nothing is. If the size `stays`, passes with
  // each attention are measured, once, and the quickest is taken. False if all goes on as before.
  bool expect(std::int64_t batch, bool stays = true);
  std::int64_t expected() const { return expected_; }
  const EngineOptions& options() const { return options_; }

  // Computes without what costs accuracy from now on. False: so it did before.
  bool compute_exactly();

  // Index arithmetic on the device, in part that of libraries, is in 32 bits.
  std::int64_t most_images() const;

  std::uint64_t graph_bytes() const { return recording_.bytes(); }

 private:
  torch::Tensor run(std::int64_t batch, const std::function<void()>& fill_patches);
  template <class Work>
  auto within_memory(const Work& work);
  void reserve(std::int64_t batch);
  void compute(std::int64_t batch);
  void set_expected(std::int64_t batch);
  void choose_attention();
  double seconds_by(Attention attention);

  EngineOptions options_;
  const cuda::GpuKernels& kernels_;
  DeviceWeights weights_;
  Operations operations_;
  std::int64_t capacity_ = 0;      // images
  torch::Tensor patches_;          // [capacity · patches, pitch], those of the last images
  torch::Tensor features_;         // [capacity, …] float
  std::int64_t expected_ = 0;      // images; 0: any number
  bool attention_chosen_ = false;  // for as many
  Recording recording_;            // of a pass over as many
};

}  // namespace coldframe::vit::gpu
