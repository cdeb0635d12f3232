// What the CPU engine computes of a batch.
#include <ATen/Parallel.h>

#include <atomic>

#include "extract/vit/cpu/workspace.h"

namespace coldframe::vit::cpu {

// The image's patches, row by row, as elements.
void Engine::take_patches(const float* image, void* pixels, std::int64_t row_bytes) const {
  const std::int64_t patch = architecture_.patch;
  at::parallel_for(0, grid_.rows, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t column = 0; column < grid_.columns; ++column)
        for (std::int64_t line = 0; line < 3 * patch; ++line) {
          const std::int64_t channel = line / patch, y = row * patch + line % patch;
          kernels_.convert(
              image + (channel * image_size_.height + y) * image_size_.width + column * patch,
              patch,
              static_cast<char*>(pixels) + (row * grid_.columns + column) * row_bytes +
                  line * patch * kernels_.element_bytes());
        }
  });
}

// One image's pass, in float but for what blocks do inside. Values are rows of the workspace or of
// the result, where those that make up the features are put behind one another.
class Engine::Pass {
 public:
  struct Value {
    float* rows;
    std::int64_t count;
  };
  using Rotation = const Block*;  // its packed weights have the rotation

  Pass(const Engine& engine, Workspace& work, float* result, float* kept)
      : engine_(engine),
        work_(work),
        x_(work.x.data_ptr<float>()),
        width_(engine.architecture_.width),
        result_(result),
        end_(result),
        kept_(kept) {}

  Value patches(const Value& image, const PatchEmbedImpl&) {
    const Kernels& kernels = engine_.kernels_;
    void* const pixels = work_.pixels.data_ptr();
    engine_.take_patches(image.rows, pixels, work_.pixels.stride(0) * kernels.element_bytes());
    const std::int64_t prefix = engine_.architecture_.prefix_tokens();
    const Value patches{x_ + prefix * width_, engine_.grid_.patches()};
    std::fill_n(patches.rows, patches.count * width_, 0.0f);
    engine_.patch_embed_.apply(pixels, patches.count, kernels.add, patches.rows, width_);
    return patches;
  }
  Value with_start(const Value& patches, const VisionTransformerImpl&) {
    const float* const start = engine_.start_.const_data_ptr<float>();
    const std::int64_t prefix = (patches.rows - x_), all = engine_.tokens_ * width_;
    std::copy_n(start, prefix, x_);
    for (std::int64_t i = prefix; i < all; ++i) x_[i] += start[i];
    return {x_, engine_.tokens_};
  }
  // In place, but for what blocks add to.
  Value norm(const Value& x, const NormImpl& layer) {
    const bool stays = in_blocks_ && x.rows >= x_ && x.rows < x_ + engine_.tokens_ * width_;
    const Value out{stays ? work_.tokens.data_ptr<float>() + (x.rows - x_) : x.rows, x.count};
    const NormFactors factors = engine_.norms_.at(&layer).factors();
    const auto normed = fastest_fp32_kernels()->norm;
    at::parallel_for(0, x.count, 32, [&](std::int64_t begin, std::int64_t end) {
      normed(x.rows + begin * width_, end - begin, width_, factors, out.rows + begin * width_);
    });
    return out;
  }
  Rotation rotation(const VisionTransformerImpl&, std::int64_t block, const Value&) {
    return &engine_.blocks_[static_cast<std::size_t>(block)];
  }
  Value block_part(std::size_t part, const Value& x, Rotation block) {
    in_blocks_ = true;
    part == 0 ? engine_.add_attention(*block, x.rows, work_)
              : engine_.add_mlp(*block, x.rows, work_);
    return x;
  }
  void kept(const Value& x) { std::copy_n(x.rows, x.count * width_, kept_); }

  Value tokens(const Value& x, std::int64_t from, std::int64_t to) {
    return {x.rows + from * width_, to - from};
  }
  Value vector(const Value& x) { return append(x); }
  Value mean(const Value& x, std::int64_t from, std::int64_t to) {
    const Value out{end_, 1};
    end_ = std::fill_n(end_, width_, 0.0f);
    for (std::int64_t row = from; row < to; ++row)
      for (std::int64_t c = 0; c < width_; ++c) out.rows[c] += x.rows[row * width_ + c];
    for (std::int64_t c = 0; c < width_; ++c) out.rows[c] /= static_cast<float>(to - from);
    return out;
  }
  Value attention_pool(const Value& seen) { return append(seen); }  // of the whole batch later
  Value joined(const std::vector<Value>& values) {
    Value all{nullptr, 0};
    for (const Value& one : values) {
      const Value there = one.rows >= result_ && one.rows < end_ ? one : append(one);
      if (!all.rows) all.rows = there.rows;
      all.count += there.count;
    }
    return all;
  }
  Value flattened(const Value& x, std::int64_t) { return x; }

 private:
  Value append(const Value& x) {
    const Value out{end_, x.count};
    end_ = std::copy_n(x.rows, x.count * width_, end_);
    return out;
  }

  const Engine& engine_;
  Workspace& work_;
  float* x_;  // [tokens, width], what the blocks add to
  std::int64_t width_;
  float *result_, *end_, *kept_;
  bool in_blocks_ = false;
};

std::int64_t Engine::floats_of(Pooling pooling) const {
  if (pooling == Pooling::kMap)
    return (architecture_.pool_prefix ? tokens_ : grid_.patches()) * architecture_.width;
  return pooled_features(pooling, architecture_, grid_.patches());
}

torch::Tensor Engine::forward(const torch::Tensor& images, const FeatureOptions& options,
                              torch::Tensor* kept) {
  const std::int64_t batch = images.size(0), threads = at::get_num_threads();
  const std::int64_t pixels = 3 * image_size_.pixels();
  const auto layers = static_cast<std::int64_t>(layers_of(options, architecture_).size());
  const std::int64_t floats = layers * floats_of(options.pooling);
  torch::Tensor features = torch::empty({batch, floats});
  float* const in = images.data_ptr<float>();
  float* const out = features.data_ptr<float>();
  for (auto i = static_cast<std::int64_t>(workspaces_.size()); i < threads; ++i)
    workspaces_.push_back(std::make_unique<Workspace>(*this));
  auto& scratches = workspaces_[0]->attention;  // for images that all threads share
  while (scratches.size() < static_cast<std::size_t>(threads))
    scratches.emplace_back(kernels_, tokens_, architecture_.width / architecture_.heads);
  FeatureOptions taken = options;
  float* cut = nullptr;
  if (!kept) taken.cut = 0;
  if (kept && options.cut > 0) {
    *kept = torch::empty({batch, tokens_, architecture_.width});
    cut = kept->data_ptr<float>();
  }
  const auto run = [&](std::int64_t image, std::int64_t thread) {
    Pass pass(*this, *workspaces_[static_cast<std::size_t>(thread)], out + image * floats,
              cut ? cut + image * tokens_ * architecture_.width : nullptr);
    model_->features(pass, {in + image * pixels, 3 * image_size_.height}, taken);
  };

  const std::int64_t whole = batch / threads * threads;
  std::atomic<std::int64_t> next{0};
  at::parallel_for(0, std::min(threads, whole), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread)
      for (std::int64_t image; (image = next++) < whole;) run(image, thread);
  });
  for (std::int64_t image = whole; image < batch; ++image) run(image, 0);
  if (options.pooling != Pooling::kMap) return features;
  const std::int64_t width = architecture_.width;
  TorchOperations ops;
  return model_->attn_pool->forward(ops, features.view({batch, floats / width, width})).flatten(1);
}

}  // namespace coldframe::vit::cpu
