#include "extract/vit/gpu/engine.h"

#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/starting_tokens.h"

namespace coldframe::vit::gpu {
namespace {

// Columns of patches are filled up to whole 32-byte sectors: tensor cores want aligned rows, and
// patches of 14 pixels have 588.
constexpr std::int64_t kPatchColumns = 16;

cuda::Element element_of(torch::ScalarType type) {
  if (type == torch::kBFloat16) return cuda::Element::kBf16;
  return type == torch::kHalf ? cuda::Element::kFp16 : cuda::Element::kFp32;
}

const float* floats(const torch::Tensor& tensor) {
  return tensor.defined() ? tensor.const_data_ptr<float>() : nullptr;
}

// Libraries that find no memory for themselves say so in words only: cuBLAS for its handle, the
// driver for code that it loads.
bool is_out_of_memory(const c10::Error& error) {
  if (dynamic_cast<const c10::OutOfMemoryError*>(&error)) return true;
  const std::string_view text = error.what_without_backtrace();
  return text.find("out of memory") != text.npos || text.find("ALLOC_FAILED") != text.npos ||
         text.find("CUBLAS_STATUS_NOT_INITIALIZED") != text.npos;
}

torch::Tensor to_floats(const torch::Tensor& tensor, const torch::Device& device) {
  return tensor.defined() ? tensor.detach().to(device, torch::kFloat).contiguous() : tensor;
}

}  // namespace

// A workspace serves batches of up to `batch` images.
struct Engine::Workspace {
  Workspace(const Engine& engine, std::int64_t batch) : capacity(batch) {
    const Architecture& shape = engine.architecture_;
    const auto options = torch::TensorOptions(engine.options_.device).dtype(engine.options_.type);
    const std::int64_t rows = batch * engine.tokens_, width = shape.width;
    const std::int64_t mlp_rows =
        engine.options_.mlp_rows > 0 ? std::min(rows, engine.options_.mlp_rows) : rows;
    patches = torch::zeros({batch * engine.patches_, engine.pitch_}, options);
    x = torch::empty({rows, width}, options.dtype(engine.options_.residual));
    normed = torch::empty({rows, width}, options);
    y = torch::empty({rows, width}, options);
    qkv = torch::empty({rows, 3 * width}, options);
    hidden = torch::empty({mlp_rows, shape.mlp_hidden}, options);
    const std::int64_t parts = engine.options_.pooling == Pooling::kClsMean ? 2 : 1;
    features = torch::empty({batch, parts * width}, options.dtype(torch::kFloat));
  }

  std::int64_t capacity;
  torch::Tensor patches;   // [batch · patches, pitch]
  torch::Tensor x;         // [rows, width] of `residual`, what the blocks add to
  torch::Tensor normed;    // [rows, width], what the matrix products read
  torch::Tensor y;         // [rows, width], what is added next
  torch::Tensor qkv;       // [rows, 3·width]
  torch::Tensor hidden;    // [mlp rows, mlp_hidden]
  torch::Tensor features;  // [batch, D or 2·D] float
};

std::optional<std::string> refusal(const Architecture& shape) {
  if (auto reason = beyond_plain(shape)) return reason;
  if (shape.width % 4 != 0 || shape.width > cuda::kMostWidth)
    return concat("its tokens have ", shape.width, " features; the kernels take multiples of 4 up ",
                  "to ", cuda::kMostWidth);
  if (shape.mlp_hidden % 8 != 0)
    return concat("its perceptrons have ", shape.mlp_hidden,
                  " features inside; the kernels take multiples of 8");
  return std::nullopt;
}

Engine::Engine(const VisionTransformerImpl& model, const EngineOptions& options,
               const cuda::GpuKernels& kernels, MakeGraph make_graph)
    : options_(options),
      architecture_(model.architecture),
      kernels_(kernels),
      graphs_(std::move(make_graph)) {
  if (const auto reason = refusal(architecture_)) throw ConfigError(*reason);
  const torch::InferenceMode guard;
  const std::int64_t patch = architecture_.patch, grid = options.image_size / patch;
  patches_ = grid * grid;
  tokens_ = architecture_.prefix_tokens() + patches_;
  const std::int64_t columns = 3 * patch * patch;
  pitch_ = (columns + kPatchColumns - 1) / kPatchColumns * kPatchColumns;
  start_ = to_floats(starting_tokens(model, patches_), options.device);
  patch_embed_ = cast(
      at::constant_pad_nd(model.patch_embed->proj->weight.flatten(1), {0, pitch_ - columns}), {});
  for (const auto& module : *model.blocks) blocks_.push_back(cast(*module->as<BlockImpl>()));
  const NormImpl& norm = model.norm ? *model.norm : *model.fc_norm;
  norm_ = {to_floats(norm.weight, options.device), to_floats(norm.bias, options.device)};
}

Engine::Linear Engine::cast(const torch::Tensor& weight, const torch::Tensor& bias) const {
  const auto to_type = [&](const torch::Tensor& tensor) {
    return tensor.detach().to(options_.device, options_.type).contiguous();
  };
  return {to_type(weight).t(), bias.defined() ? to_type(bias) : bias};
}

Engine::Block Engine::cast(const BlockImpl& block) const {
  const auto norm = [&](const vit::Norm& layer) {
    return Norm{to_floats(layer->weight, options_.device), to_floats(layer->bias, options_.device)};
  };
  const auto scale = [&](const LayerScale& layer) {
    return layer ? to_floats(layer->gamma, options_.device) : torch::Tensor();
  };
  return {norm(block.norm1),
          norm(block.norm2),
          cast(block.attn->qkv->weight, block.attn->qkv->bias),
          cast(block.attn->proj->weight, {}),
          cast(block.mlp->fc1->weight, {}),
          cast(block.mlp->fc2->weight, {}),
          to_floats(block.attn->proj->bias, options_.device),
          to_floats(block.mlp->fc1->bias, options_.device),
          to_floats(block.mlp->fc2->bias, options_.device),
          scale(block.ls1),
          scale(block.ls2)};
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
  graphs_.clear();  // they compute in the workspace
  work_ = nullptr;
}

// The limit is that of frames, which the patch kernel counts in pixels, and of the largest tensors
// of the workspace.
std::int64_t Engine::most_images() const {
  const std::int64_t size = options_.image_size;
  const std::int64_t columns = std::max(3 * architecture_.width, architecture_.mlp_hidden);
  return INT32_MAX / std::max({3 * size * size, patches_ * pitch_, tokens_ * columns});
}

torch::Tensor Engine::run(std::int64_t batch, const std::function<void()>& fill_patches) {
  const torch::InferenceMode guard;
  const c10::DeviceGuard device(options_.device);  // on which the kernels are launched
  try {
    reserve(batch);
    fill_patches();
    if (batch > 0) graphs_.run(batch, [&] { compute(batch); });
  } catch (const c10::Error& error) {
    if (!is_out_of_memory(error)) throw;
    release_memory();
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, error.what_without_backtrace());
  }
  return work_->features.narrow(0, 0, batch);
}

void Engine::compute(std::int64_t batch) {
  embed(batch);
  const std::int64_t rows = batch * tokens_;
  for (std::size_t i = 0; i < blocks_.size(); ++i) {
    const Block& block = blocks_[i];
    const bool last = i + 1 == blocks_.size();
    // Nothing but the class token's feature leaves the last block then.
    const bool class_token_alone = last && options_.pooling == Pooling::kCls;
    const std::int64_t left = class_token_alone ? batch : rows;
    class_token_alone ? attend_class_token(block, batch) : attend(block, batch);
    add(block.proj_bias, block.scale1, block.norm2, left);
    perceive(block, left);
    add(block.fc2_bias, block.scale2, last ? norm_ : blocks_[i + 1].norm1, left);
  }
  pool(batch);
}

void Engine::embed(std::int64_t batch) {
  torch::Tensor y = work_->y.narrow(0, 0, batch * patches_);
  at::mm_out(y, work_->patches.narrow(0, 0, batch * patches_), patch_embed_.weight);
  const Norm& norm = blocks_.empty() ? norm_ : blocks_.front().norm1;
  check(kernels_.embed_norm(
      {floats(start_), y.const_data_ptr(), work_->x.data_ptr(), floats(norm.weight),
       floats(norm.bias), work_->normed.data_ptr(), batch, tokens_, architecture_.prefix_tokens(),
       architecture_.width, element_of(options_.residual), element_of(options_.type)},
      stream()));
}

// normed -> y, without the projection's bias.
void Engine::attend(const Block& block, std::int64_t batch) {
  const std::int64_t rows = batch * tokens_, width = architecture_.width;
  const std::int64_t heads = architecture_.heads;
  torch::Tensor qkv = work_->qkv.narrow(0, 0, rows), y = work_->y.narrow(0, 0, rows);
  const torch::Tensor normed = work_->normed.narrow(0, 0, rows);
  if (block.qkv.bias.defined())
    at::addmm_out(qkv, block.qkv.bias, normed, block.qkv.weight);
  else
    at::mm_out(qkv, normed, block.qkv.weight);
  const auto parts = qkv.view({batch, tokens_, 3, heads, width / heads})
                         .permute({2, 0, 3, 1, 4})  // [3, B, h, tokens, d]
                         .unbind(0);
  const torch::Tensor attended = at::scaled_dot_product_attention(parts[0], parts[1], parts[2]);
  at::mm_out(y, attended.transpose(1, 2).reshape({rows, width}), block.proj.weight);
}

// The same for the first token of each image alone, whose x moves to the first `batch` rows.
void Engine::attend_class_token(const Block& block, std::int64_t batch) {
  const std::int64_t rows = batch * tokens_, width = architecture_.width;
  const std::int64_t heads = architecture_.heads, head = width / heads;
  const auto class_tokens = [&](const torch::Tensor& tensor) {
    return tensor.narrow(0, 0, rows)
        .view({batch, tokens_, width})
        .select(1, 0)
        .clone(at::MemoryFormat::Contiguous);
  };
  const auto project = [&](torch::Tensor& out, const torch::Tensor& in, std::int64_t from,
                           std::int64_t columns) {
    const torch::Tensor weight = block.qkv.weight.narrow(1, from, columns);
    if (block.qkv.bias.defined())
      at::addmm_out(out, block.qkv.bias.narrow(0, from, columns), in, weight);
    else
      at::mm_out(out, in, weight);
  };
  torch::Tensor query = work_->y.narrow(0, 0, batch);
  project(query, class_tokens(work_->normed), 0, width);
  torch::Tensor others =
      work_->qkv.flatten().narrow(0, 0, rows * 2 * width).view({rows, 2 * width});
  project(others, work_->normed.narrow(0, 0, rows), width, 2 * width);
  const auto parts =
      others.view({batch, tokens_, 2, heads, head}).permute({2, 0, 3, 1, 4}).unbind(0);
  const torch::Tensor attended = at::scaled_dot_product_attention(
      query.view({batch, heads, 1, head}), parts[0], parts[1]);  // [B, h, 1, d]
  const torch::Tensor x = class_tokens(work_->x);
  work_->x.narrow(0, 0, batch).copy_(x);
  at::mm_out(query, attended.reshape({batch, width}), block.proj.weight);  // into y
}

// normed -> y through the perceptron, without its last bias.
void Engine::perceive(const Block& block, std::int64_t rows) {
  const std::int64_t step = work_->hidden.size(0);
  for (std::int64_t first = 0; first < rows; first += step) {
    const std::int64_t count = std::min(step, rows - first);
    torch::Tensor hidden = work_->hidden.narrow(0, 0, count);
    torch::Tensor y = work_->y.narrow(0, first, count);
    at::mm_out(hidden, work_->normed.narrow(0, first, count), block.fc1.weight);
    check(kernels_.bias_gelu({hidden.data_ptr(), floats(block.fc1_bias), count,
                              architecture_.mlp_hidden, element_of(options_.type)},
                             stream()));
    at::mm_out(y, hidden, block.fc2.weight);
  }
}

// x += scale · (y + bias), normed = the next LayerNorm of x.
void Engine::add(const torch::Tensor& bias, const torch::Tensor& scale, const Norm& next,
                 std::int64_t rows) {
  check(kernels_.residual_norm(
      {work_->x.data_ptr(), work_->y.const_data_ptr(), floats(bias), floats(scale),
       floats(next.weight), floats(next.bias), work_->normed.data_ptr(), rows, architecture_.width,
       element_of(options_.residual), element_of(options_.type)},
      stream()));
}

// The class token is normed again, in float; the mean evens the rounding of `normed` out. With
// fc_norm the norm comes after the mean.
void Engine::pool(std::int64_t batch) {
  const std::int64_t width = architecture_.width, rows = batch * tokens_;
  const bool alone = options_.pooling == Pooling::kCls;  // x holds class tokens only
  const auto normed = [&](const torch::Tensor& x) {
    return at::layer_norm(x.to(torch::kFloat), {width}, norm_.weight, norm_.bias,
                          cuda::kNormEpsilon);
  };
  const auto tokens = [&](const torch::Tensor& of) {
    return of.narrow(0, 0, rows).view({batch, tokens_, width});
  };
  torch::Tensor features = work_->features.narrow(0, 0, batch);
  if (options_.pooling != Pooling::kMean)
    features.narrow(1, 0, width)
        .copy_(normed(alone && !blocks_.empty() ? work_->x.narrow(0, 0, batch)
                                                : tokens(work_->x).select(1, 0)));
  if (options_.pooling == Pooling::kCls) return;
  const torch::Tensor source = architecture_.fc_norm ? work_->x : work_->normed;
  const torch::Tensor mean =
      tokens(source).narrow(1, tokens_ - patches_, patches_).mean({1}, false, torch::kFloat);
  features.narrow(1, features.size(1) - width, width)
      .copy_(architecture_.fc_norm ? normed(mean) : mean);
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
