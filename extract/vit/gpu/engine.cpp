#include "extract/vit/gpu/engine.h"

#include <ATen/Context.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/error_text.h"
#include "extract/vit/gpu/workspace.h"
#include "extract/vit/inference_weights.h"

namespace coldframe::vit::gpu {
namespace {

// Columns of patches are filled up to whole 32-byte sectors: tensor cores want aligned rows, and
// patches of 14 pixels have 588.
constexpr std::int64_t kPatchColumns = 16;

// Perceptrons' hidden layers are filled up to what the activation's kernel takes at once.
constexpr std::int64_t kHiddenColumns = 8;

std::int64_t filled_up(std::int64_t columns, std::int64_t unit) {
  return (columns + unit - 1) / unit * unit;
}

}  // namespace

std::optional<std::string> refusal(const Architecture& shape) {
  if (auto reason = beyond_engines(shape)) return reason;
  if (!function_of(shape.activation)) return value_text(shape, "activation");
  if (shape.width % 4 != 0 || shape.width > cuda::kMostWidth)
    return concat("its tokens have ", shape.width, " features; the kernels take multiples of 4 up ",
                  "to ", cuda::kMostWidth);
  return std::nullopt;
}

Engine::Engine(const VisionTransformerImpl& model, const EngineOptions& options,
               const cuda::GpuKernels& kernels, MakeGraph make_graph)
    : options_(options),
      architecture_(model.architecture),
      kernels_(kernels),
      hidden_(filled_up(model.architecture.mlp_hidden, kHiddenColumns)),
      attn_pool_(nullptr),
      recording_(std::move(make_graph)) {
  if (const auto reason = refusal(architecture_)) throw ConfigError(*reason);
  const torch::InferenceMode guard;
  // cuDNN's attention, which LibTorch 2.11 prefers on Hopper, builds a plan for every new shape;
  // flash attention has none to build (aten/src/ATen/native/transformers/cuda/sdp_utils.cpp).
  at::globalContext().setSDPUseCuDNN(false);
  const std::int64_t patch = architecture_.patch, grid = options.image_size / patch;
  patches_ = grid * grid;
  tokens_ = architecture_.prefix_tokens() + patches_;
  const std::int64_t columns = 3 * patch * patch;
  pitch_ = filled_up(columns, kPatchColumns);
  start_ = floats_on_device(starting_tokens(model, patches_));
  patch_embed_ =
      cast(at::constant_pad_nd(model.patch_embed->proj->weight.flatten(1), {0, pitch_ - columns}),
           torch::Tensor());
  patch_norm_ = cast(model.patch_embed->norm);
  if (patch_norm_) patch_bias_ = floats_on_device(model.patch_embed->proj->bias);
  norm_pre_ = cast(model.norm_pre);
  const auto turns = rotations(architecture_, grid, model.rope_freqs);
  for (std::size_t i = 0; i < model.blocks.size(); ++i)
    blocks_.push_back(cast(*model.blocks[i], turns[i]));
  norm_ = cast(model.norm);
  fc_norm_ = cast(model.fc_norm);
  if (options.pooling == Pooling::kMap) attn_pool_ = pool_on_device(model.attn_pool);
}

torch::Tensor Engine::forward_frames(const torch::Tensor& frames, const torch::Tensor& levels) {
  const std::int64_t batch = frames.size(0);
  return run(batch, [&] {
    check(kernels_.patches(
        {frames.const_data_ptr<std::uint8_t>(), floats(levels), work_->patches.data_ptr(), batch,
         options_.image_size, architecture_.patch, pitch_, element_of(options_.type)},
        stream()));
  });
}

torch::Tensor Engine::forward_images(const torch::Tensor& images) {
  const std::int64_t batch = images.size(0), patch = architecture_.patch;
  const std::int64_t grid = options_.image_size / patch, columns = 3 * patch * patch;
  return run(batch, [&] {
    work_->patches.narrow(0, 0, batch * patches_)
        .narrow(1, 0, columns)
        .view({batch, grid, grid, 3, patch, patch})
        .copy_(images.view({batch, 3, grid, patch, grid, patch}).permute({0, 2, 4, 1, 3, 5}));
  });
}

void Engine::reserve(std::int64_t batch) {
  if (work_ && work_->capacity >= batch) return;
  release_memory();  // before more is taken: the two may not fit together
  work_ = std::make_shared<Workspace>(*this, batch);
}

void Engine::release_memory() {
  recording_.clear();  // it computes in the workspace
  work_ = nullptr;
}

void Engine::expect(std::int64_t batch) {
  if (batch == expected_) return;
  recording_.clear();
  expected_ = batch;
}

// The limit is that of frames, which the patch kernel counts in pixels, and of the largest tensors
// of the workspace.
std::int64_t Engine::most_images() const {
  const std::int64_t size = options_.image_size;
  const std::int64_t columns =
      std::max(3 * architecture_.width, (architecture_.gated_mlp ? 2 : 1) * hidden_);
  return INT32_MAX / std::max({3 * size * size, patches_ * pitch_, tokens_ * columns});
}

// Padding rows hold stale data; what is computed from them is not read.
torch::Tensor Engine::run(std::int64_t batch, const std::function<void()>& fill_patches) {
  const torch::InferenceMode guard;
  const c10::DeviceGuard device(options_.device);  // on which the kernels are launched
  try {
    const std::int64_t computed = batch > 0 ? std::max(batch, expected_) : 0;
    reserve(computed);
    fill_patches();
    if (computed > 0 && computed == expected_)
      recording_.run([this, computed] { compute(computed); });
    else if (computed > 0)
      compute(computed);
  } catch (const c10::Error& error) {
    if (!is_out_of_memory(error)) throw;
    release_memory();
    expect(0);  // it was too large
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, error.what_without_backtrace());
  }
  return work_->features.narrow(0, 0, batch);
}

std::vector<LayerCost> Engine::measure_layers(std::int64_t batch) {
  const torch::InferenceMode guard;
  const c10::DeviceGuard device(options_.device);
  reserve(batch);
  LayerClock clock(options_.device);
  clock_ = &clock;
  try {
    compute(batch);
  } catch (...) {
    clock_ = nullptr;
    throw;
  }
  clock_ = nullptr;
  return clock.read();
}

void* Engine::stream() const {
  if (options_.device.is_cpu()) return nullptr;
  const c10::impl::VirtualGuardImpl streams(options_.device.type());
  return streams.getStream(options_.device).native_handle();
}

void Engine::check(int error) const {
  if (error == 0) return;
  if (error == cuda::kOutOfMemory)  // code is loaded to the device with its first use
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "no memory for a kernel");
  throw SystemError(concat("a CUDA kernel of the ViT failed with error ", error,
                           "; run with --device cpu, or check the driver with nvidia-smi"));
}

}  // namespace coldframe::vit::gpu
