#include "extract/vit/gpu/engine.h"

#include <c10/core/DeviceGuard.h>

#include <algorithm>
#include <cstdint>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/torch/error_text.h"
#include "extract/vit/gpu/kernel_calls.h"

namespace coldframe::vit::gpu {

// The kernel turns pairs of numbers that lie half a head apart; DeviceWeights brings them there in
// blocks of one plain attention.
std::optional<std::string> refusal(const Architecture& shape) {
  const bool plain = shape.block == BlockKind::kPreNorm || shape.block == BlockKind::kPostNorm;
  if (shape.rotary == Rotary::kNone || (plain && !shape.differential)) return std::nullopt;
  return value_text(shape, "rotary");
}

Engine::Engine(const VisionTransformerImpl& model, const EngineOptions& options,
               const cuda::GpuKernels& kernels, MakeGraph make_graph)
    : options_(options),
      kernels_(kernels),
      weights_([&] {
        if (const auto reason = refusal(model.architecture)) throw ConfigError(*reason);
        const torch::InferenceMode guard;
        return DeviceWeights(model, options);
      }()),
      operations_(weights_, options_, kernels),
      recording_(std::move(make_graph)) {}

torch::Tensor Engine::forward_frames(const torch::Tensor& frames, const torch::Tensor& levels) {
  const std::int64_t batch = frames.size(0);
  return run(batch, [&] {
    check(kernels_.patches(
        {frames.const_data_ptr<std::uint8_t>(), floats(levels), patches_.data_ptr(), batch,
         options_.image_size, weights_.model->architecture.patch, patches_.size(1),
         dtype_of(options_.type)},
        stream_of(options_.device)));
  });
}

torch::Tensor Engine::forward_images(const torch::Tensor& images) {
  const std::int64_t batch = images.size(0), patch = weights_.model->architecture.patch;
  const std::int64_t grid = options_.image_size / patch, columns = 3 * patch * patch;
  return run(batch, [&] {
    patches_.narrow(0, 0, batch * grid * grid)
        .narrow(1, 0, columns)
        .view({batch, grid, grid, 3, patch, patch})
        .copy_(images.view({batch, 3, grid, patch, grid, patch}).permute({0, 2, 4, 1, 3, 5}));
  });
}

void Engine::reserve(std::int64_t batch) {
  if (patches_.defined() && capacity_ >= batch) return;
  release_memory();  // before more is taken: the two may not fit together
  const std::int64_t pitch = weights_.patch_embed.size(1);
  patches_ =
      torch::zeros({batch * weights_.model->grid.patches(), pitch}, weights_.patch_embed.options());
  capacity_ = batch;
}

void Engine::release_memory() {
  recording_.clear();  // it computes in that memory
  operations_.release_memory();
  patches_ = features_ = torch::Tensor();
}

bool Engine::expect(std::int64_t batch, bool stays) {
  const bool choose = stays && batch > 0 && options_.attention;
  if (batch == expected_ && (!choose || attention_chosen_)) return false;
  set_expected(batch);
  if (choose) choose_attention();
  return true;
}

// The recording and the attention are those of the batch that is expected.
void Engine::set_expected(std::int64_t batch) {
  recording_.clear();
  operations_.set_attention(nullptr);
  attention_chosen_ = false;
  expected_ = batch;
}

bool Engine::compute_exactly() {
  EngineOptions exact = options_;
  exact.residual = torch::kFloat;
  exact.gelu_in_product = false;
  exact.attention = nullptr;
  if (exact.residual == options_.residual && !options_.gelu_in_product && !options_.attention)
    return false;
  release_memory();
  options_ = exact;
  operations_.set_attention(nullptr);
  return true;
}

// The limit is that of frames, which the patch kernel counts in pixels, and of the largest tensors.
std::int64_t Engine::most_images() const {
  const std::int64_t size = options_.image_size, patches = weights_.model->grid.patches();
  std::int64_t columns = weights_.start.size(1);
  for (const auto& module : weights_.model->modules())
    if (const auto* const linear = module->as<LinearImpl>())
      columns = std::max(columns, linear->weight.size(0));
  return INT32_MAX / std::max({3 * size * size, patches * weights_.patch_embed.size(1),
                               weights_.start.size(0) * columns});
}

template <class Work>
auto Engine::within_memory(const Work& work) {
  const torch::InferenceMode guard;
  const c10::DeviceGuard device(options_.device);  // on which the kernels are launched
  try {
    return work();
  } catch (const c10::Error& error) {
    if (!is_out_of_memory(error)) throw;
    release_memory();
    set_expected(0);  // it was too large
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, error.what_without_backtrace());
  }
}

// Rows behind the batch hold stale data; what is computed from them is not read.
torch::Tensor Engine::run(std::int64_t batch, const std::function<void()>& fill_patches) {
  const std::int64_t computed = batch > 0 ? std::max(batch, expected_) : 1;
  return within_memory([&] {
    reserve(computed);
    if (batch > 0) fill_patches();
    if (computed == expected_)
      recording_.run([this, computed] { compute(computed); });
    else
      compute(computed);
    return features_.narrow(0, 0, batch);
  });
}

void Engine::compute(std::int64_t batch) {
  const std::int64_t patches = weights_.model->grid.patches();
  const torch::Tensor found = operations_.features(
      patches_.narrow(0, 0, batch * patches).view({batch, patches, patches_.size(1)}));
  if (!features_.defined()) features_ = torch::empty({capacity_, found.size(1)}, found.options());
  features_.narrow(0, 0, batch).copy_(found);
}

std::vector<LayerCost> Engine::measure_layers(std::int64_t batch) {
  return within_memory([&] {
    reserve(batch);
    LayerClock clock(options_);
    operations_.set_clock(&clock);
    try {
      compute(batch);
    } catch (...) {
      operations_.set_clock(nullptr);
      throw;
    }
    operations_.set_clock(nullptr);
    return clock.read();
  });
}

// Of a pass over the images that are expected, behind one that warms up.
double Engine::seconds_by(Attention attention) {
  constexpr int kPasses = 2;
  operations_.set_attention(attention);
  compute(expected_);
  LayerClock clock(options_);
  for (int i = 0; i < kPasses; ++i) compute(expected_);
  clock.mark("passes", 0, 0);
  return clock.read().front().seconds / kPasses;
}

// On Hopper cuDNN's attention takes half of flash attention's time or less, on older devices more;
// it builds a plan for every shape, so that it is worth while once the shape stays.
void Engine::choose_attention() {
  const StageTimer timer(options_.times.get(), "attention");
  within_memory([&] {
    reserve(expected_);
    const double own = seconds_by(nullptr);
    try {
      const double others = seconds_by(options_.attention);
      const char* const taken = others < own ? "cuDNN's" : "LibTorch's choice";
      log_info(concat("a batch of ", expected_, " takes ", fixed(1e3 * others, 2),
                      " ms with cuDNN's attention and ", fixed(1e3 * own, 2),
                      " ms with LibTorch's choice: ", taken, " is taken"));
      if (others >= own) operations_.set_attention(nullptr);
    } catch (const std::exception& error) {
      operations_.set_attention(nullptr);
      if (is_out_of_memory(error)) throw;
      log_info(concat("cuDNN's attention is left out: ", first_line(error)));
    }
    attention_chosen_ = true;
  });
}

}  // namespace coldframe::vit::gpu
