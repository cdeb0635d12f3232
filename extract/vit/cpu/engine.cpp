#include "extract/vit/cpu/engine.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <cmath>
#include <cstring>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/inference_weights.h"

namespace coldframe::vit::cpu {

namespace {

// Rows that pass through the perceptron together, so that its hidden layer stays in the
// second-level cache.
constexpr std::int64_t kMlpRows = 200;

torch::Tensor plain(const torch::Tensor& parameter) {
  return !parameter.defined() ? parameter
                              : parameter.detach().to(torch::kCPU, torch::kFloat32).contiguous();
}

torch::Tensor defined_scale(const LayerScale& scale) {
  return scale ? plain(scale->gamma) : torch::Tensor();
}

const ActivationKernels& kernels_of(const Kernels& kernels, Activation activation) {
  switch (activation) {
    case Activation::kGeluTanh:
      return kernels.gelu_tanh;
    case Activation::kQuickGelu:
      return kernels.quick_gelu;
    case Activation::kSilu:
      return kernels.silu;
    case Activation::kGelu:
      break;
  }
  return kernels.gelu;
}

Epilogue end_of_fc1(const Kernels& kernels, const Architecture& shape) {
  const ActivationKernels& activation = kernels_of(kernels, shape.activation);
  return shape.gated_mlp ? activation.gate : activation.alone;
}

// x (elements) [rows, width], unless there is no norm.
void normalise_in_place(const Kernels& kernels, const NormWeights& norm, void* x, std::int64_t rows,
                        std::int64_t width) {
  if (!norm) return;
  at::parallel_for(0, rows, 32, [&](std::int64_t begin, std::int64_t end) {
    kernels.norm_in_place(static_cast<char*>(x) + begin * width * bytes_of(kernels.element), width,
                          end - begin, width, norm.factors());
  });
}

}  // namespace

struct Engine::Workspace {
  explicit Workspace(const Engine& engine)
      : x(torch::empty({engine.tokens_, engine.architecture_.width})),
        tokens(torch::empty_like(x)) {
    const Architecture& shape = engine.architecture_;
    const auto type = torch_type(engine.kernels_.element);
    normed = torch::empty({engine.tokens_, shape.width}, type);
    qkv = torch::empty({engine.tokens_, 3 * shape.width}, type);
    hidden = torch::empty({std::min(kMlpRows, engine.tokens_), shape.mlp_hidden}, type);
    const std::int64_t words = engine.patch_embed_.in_words;
    pixels = torch::zeros(
        {engine.grid_.patches(), words * elements_per_word(engine.kernels_.element)}, type);
    attention.emplace_back(engine.kernels_, engine.tokens_, shape.width / shape.heads);
  }

  torch::Tensor x;                          // [tokens, width] float, what the blocks add to
  torch::Tensor tokens;                     // [tokens, width] float, x behind the last norm
  torch::Tensor normed;                     // [tokens, width], also what attention gives
  torch::Tensor qkv;                        // [tokens, 3·width]
  torch::Tensor hidden;                     // [rows, mlp_hidden]
  torch::Tensor pixels;                     // [patches, 3·patch²], filled up to whole words
  std::vector<AttentionScratch> attention;  // one for each thread that shares this image
};

std::optional<std::string> refusal(const Architecture& shape, const Kernels& kernels) {
  if (auto reason = beyond_engines(shape)) return reason;
  const std::int64_t unit = elements_per_word(kernels.element);
  for (const std::int64_t size : {shape.width, shape.width / shape.heads, shape.mlp_hidden})
    if (size % unit != 0)
      return concat("its layers have ", size, " features, and ", kernels.name, " takes them in ",
                    "pairs");
  return std::nullopt;
}

Engine::Engine(const VisionTransformerImpl& model, const ImageSize& image_size,
               const Kernels& kernels, torch::ScalarType weights)
    : kernels_(kernels),
      architecture_(model.architecture),
      image_size_(image_size),
      grid_(image_size, architecture_.patch),
      tokens_(architecture_.prefix_tokens() + grid_.patches()),
      patch_norm_(model.patch_embed->norm),
      patch_embed_(kernels, weights, plain(model.patch_embed->proj->weight).flatten(1),
                   patch_norm_ ? plain(model.patch_embed->proj->bias) : torch::Tensor()),
      norm_pre_(model.norm_pre),
      end_of_fc1_(end_of_fc1(kernels, architecture_)),
      norm_(model.norm),
      fc_norm_(model.fc_norm),
      attn_pool_(model.attn_pool) {
  if (const auto reason = refusal(architecture_, kernels)) throw ConfigError(*reason);
  start_ = starting_tokens(model, grid_.patches());
  const auto turns = rotations(architecture_, grid_, model.rope_freqs);
  for (std::size_t i = 0; i < model.blocks.size(); ++i)
    blocks_.push_back(pack(*model.blocks[i], turns[i], weights));
}

Engine::Block Engine::pack(const BlockImpl& block, const Rotation& rotation,
                           torch::ScalarType type) const {
  const auto packed = [&](const Linear& linear, const torch::Tensor& scale) {
    return PackedLinear(kernels_, type, plain(linear->weight), plain(linear->bias), scale);
  };
  const Branch& attends = block.branches[0][0];
  const Branch& perceptron = block.branches[1][0];
  const AttentionWeights attention = attention_weights(*attends.attention, rotation);
  const double head_width = static_cast<double>(architecture_.width / architecture_.heads);
  const Linear& fc1 = perceptron.mlp->fc1;
  return {NormWeights(attends.norm),
          NormWeights(perceptron.norm),
          NormWeights(attends.attention->norm),
          NormWeights(perceptron.mlp->norm),
          PackedLinear(kernels_, type, attention.qkv, attention.qkv_bias),
          packed(attends.attention->proj, defined_scale(attends.scale)),
          architecture_.gated_mlp
              ? PackedLinear::gated(kernels_, type, plain(fc1->weight), plain(fc1->bias))
              : packed(fc1, {}),
          packed(perceptron.mlp->fc2, defined_scale(perceptron.scale)),
          QueryKeyChanges(attention, architecture_),
          attends.attention->relative.defined()
              ? plain(attends.attention->relative) * std::sqrt(head_width)
              : torch::Tensor()};
}

Engine::~Engine() = default;

void Engine::normalise(const NormWeights& norm, float* x, std::int64_t rows) const {
  const auto normed = fastest_fp32_kernels()->norm;
  const std::int64_t width = architecture_.width;
  at::parallel_for(0, rows, 32, [&](std::int64_t begin, std::int64_t end) {
    normed(x + begin * width, end - begin, width, norm.factors(), x + begin * width);
  });
}

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
                  line * patch * bytes_of(kernels_.element));
        }
  });
}

void Engine::embed(const float* image, Workspace& work) const {
  void* const pixels = work.pixels.data_ptr();
  take_patches(image, pixels, work.pixels.stride(0) * bytes_of(kernels_.element));
  const std::int64_t width = architecture_.width;
  float* const x = work.x.data_ptr<float>();
  float* const patches = x + architecture_.prefix_tokens() * width;
  if (patch_norm_) {
    std::fill(x, x + tokens_ * width, 0.0f);
    patch_embed_.apply(pixels, grid_.patches(), kernels_.add, patches, width);
    normalise(patch_norm_, patches, grid_.patches());
    const float* const start = start_.const_data_ptr<float>();
    for (std::int64_t i = 0; i < start_.numel(); ++i) x[i] += start[i];
  } else {
    std::memcpy(x, start_.const_data_ptr(), start_.nbytes());
    patch_embed_.apply(pixels, grid_.patches(), kernels_.add, patches, width);
  }
  if (norm_pre_) normalise(norm_pre_, x, tokens_);
}

void Engine::run_block(const Block& block, Workspace& work) const {
  const std::int64_t width = architecture_.width;
  float* const x = work.x.data_ptr<float>();
  auto* const normed = static_cast<char*>(work.normed.data_ptr());
  const auto normalise = [&](const NormWeights& norm) {
    at::parallel_for(0, tokens_, 32, [&](std::int64_t begin, std::int64_t end) {
      kernels_.norm(x + begin * width, end - begin, width, norm.factors(),
                    normed + begin * width * bytes_of(kernels_.element));
    });
  };
  normalise(block.norm1);
  attend_to_all(block, work);
  block.proj.apply(normed, tokens_, kernels_.add, x, width);
  normalise(block.norm2);
  mlp(block, work);
}

// normed -> normed
void Engine::attend_to_all(const Block& block, Workspace& work) const {
  const std::int64_t width = architecture_.width, head_width = width / architecture_.heads;
  const std::int64_t bytes = bytes_of(kernels_.element);
  auto* const normed = static_cast<char*>(work.normed.data_ptr());
  auto* const qkv = static_cast<char*>(work.qkv.data_ptr());
  block.qkv.apply(normed, tokens_, kernels_.store, qkv, 3 * width);
  at::parallel_for(0, architecture_.heads, 1, [&](std::int64_t begin, std::int64_t end) {
    AttentionScratch& scratch = work.attention[static_cast<std::size_t>(at::get_thread_num())];
    for (std::int64_t number = begin; number < end; ++number) {
      const std::int64_t offset = number * head_width * bytes;
      const float* const bias = block.relative.defined() ? block.relative.const_data_ptr<float>() +
                                                               number * tokens_ * tokens_
                                                         : nullptr;
      const Head head{tokens_, head_width, width, qkv + offset, normed + offset, bias};
      block.changes.apply(kernels_, head, number);
      attend(kernels_, head, scratch);
    }
  });
  normalise_in_place(kernels_, block.attention_norm, normed, tokens_, width);
}

// x += mlp(normed)
void Engine::mlp(const Block& block, Workspace& work) const {
  const std::int64_t width = architecture_.width, inner = architecture_.mlp_hidden;
  const auto* const normed = static_cast<const char*>(work.normed.const_data_ptr());
  void* const hidden = work.hidden.data_ptr();
  const std::int64_t passes = (tokens_ + kMlpRows - 1) / kMlpRows;
  for (std::int64_t i = 0; i < passes; ++i) {
    const std::int64_t first = tokens_ * i / passes, rows = tokens_ * (i + 1) / passes - first;
    block.fc1.apply(normed + first * width * bytes_of(kernels_.element), rows, end_of_fc1_, hidden,
                    inner);
    normalise_in_place(kernels_, block.mlp_norm, hidden, rows, inner);
    block.fc2.apply(hidden, rows, kernels_.add, work.x.data_ptr<float>() + first * width, width);
  }
}

// Final norm and pooling, in float; for the attention pooling all tokens that it sees.
void Engine::pool(Pooling pooling, Workspace& work, float* out) const {
  const std::int64_t width = architecture_.width, prefix = architecture_.prefix_tokens();
  float* const x = work.tokens.data_ptr<float>();
  std::memcpy(x, work.x.const_data_ptr(), work.x.nbytes());
  if (norm_) normalise(norm_, x, tokens_);
  float* to = out;
  const auto add_rows = [&](std::int64_t begin, std::int64_t end) {
    to = std::copy(x + begin * width, x + end * width, to);
  };
  const auto add_mean = [&](const TokenRange& range) {
    std::fill(to, to + width, 0.0f);
    for (std::int64_t row = range.begin; row < range.end; ++row)
      for (std::int64_t c = 0; c < width; ++c) to[c] += x[row * width + c];
    for (std::int64_t c = 0; c < width; ++c) to[c] /= static_cast<float>(range.count());
    to += width;
  };
  if (pooling == Pooling::kMap) return add_rows(architecture_.pool_prefix ? 0 : prefix, tokens_);
  if (pooling == Pooling::kNone) add_rows(0, tokens_);
  if (takes_class_token(pooling)) add_rows(0, 1);
  if (const auto range = averaged_tokens(pooling, architecture_, tokens_ - prefix))
    add_mean(*range);
  if (fc_norm_) normalise(fc_norm_, out, (to - out) / width);
}

std::int64_t Engine::floats_of(Pooling pooling) const {
  if (pooling == Pooling::kMap)
    return (architecture_.pool_prefix ? tokens_ : grid_.patches()) * architecture_.width;
  return pooled_features(pooling, architecture_, grid_.patches());
}

void Engine::run_image(const float* image, const FeatureOptions& options, Workspace& work,
                       float* out, float* kept) const {
  embed(image, work);
  std::int64_t done = 0;
  for (const std::int64_t layer : layers_of(options, architecture_)) {
    while (done < layer) {
      if (kept && done == options.cut) std::memcpy(kept, work.x.const_data_ptr(), work.x.nbytes());
      run_block(blocks_[static_cast<std::size_t>(done++)], work);
    }
    pool(options.pooling, work, out);
    out += floats_of(options.pooling);
  }
}

torch::Tensor Engine::forward(const torch::Tensor& images, const FeatureOptions& options,
                              torch::Tensor* kept) {
  const std::int64_t batch = images.size(0), threads = at::get_num_threads();
  const std::int64_t pixels = 3 * image_size_.pixels();
  const auto layers = static_cast<std::int64_t>(layers_of(options, architecture_).size());
  const std::int64_t floats = layers * floats_of(options.pooling);
  torch::Tensor features = torch::empty({batch, floats});
  const float* const in = images.const_data_ptr<float>();
  float* const out = features.data_ptr<float>();
  for (auto i = static_cast<std::int64_t>(workspaces_.size()); i < threads; ++i)
    workspaces_.push_back(std::make_unique<Workspace>(*this));
  auto& scratches = workspaces_[0]->attention;  // for images that all threads share
  while (scratches.size() < static_cast<std::size_t>(threads))
    scratches.emplace_back(kernels_, tokens_, architecture_.width / architecture_.heads);
  float* cut = nullptr;
  if (kept && options.cut > 0) {
    *kept = torch::empty({batch, tokens_, architecture_.width});
    cut = kept->data_ptr<float>();
  }
  const auto run = [&](std::int64_t image, std::int64_t thread) {
    run_image(in + image * pixels, options, *workspaces_[static_cast<std::size_t>(thread)],
              out + image * floats, cut ? cut + image * tokens_ * architecture_.width : nullptr);
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
  return attn_pool_->forward(ops, features.view({batch, floats / width, width})).flatten(1);
}

}  // namespace coldframe::vit::cpu
