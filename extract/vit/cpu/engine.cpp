#include "extract/vit/cpu/engine.h"

#include <atomic>
#include <cstring>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/torch/parallel.h"
#include "extract/vit/starting_tokens.h"

namespace coldframe::vit::cpu {

namespace {

// Rows that pass through the perceptron together, so that its hidden layer stays in the
// second-level cache.
constexpr std::int64_t kMlpRows = 200;

torch::Tensor plain(const torch::Tensor& parameter) {
  return parameter.detach().to(torch::kCPU, torch::kFloat32).contiguous();
}

torch::Tensor defined_scale(const LayerScale& scale) {
  return scale ? plain(scale->gamma) : torch::Tensor();
}

const torch::Tensor& final_norm(const VisionTransformerImpl& model, bool weight) {
  const NormImpl& norm = model.norm ? *model.norm : *model.fc_norm;
  return weight ? norm.weight : norm.bias;
}

}  // namespace

struct Engine::Workspace {
  explicit Workspace(const Engine& engine)
      : x(torch::empty({engine.tokens_, engine.architecture_.width})) {
    const Architecture& shape = engine.architecture_;
    const auto type = torch_type(engine.kernels_.element);
    normed = torch::empty({engine.tokens_, shape.width}, type);
    qkv = torch::empty({engine.tokens_, 3 * shape.width}, type);
    hidden = torch::empty({std::min(kMlpRows, engine.tokens_), shape.mlp_hidden}, type);
    const std::int64_t words = engine.patch_embed_.in_words;
    pixels =
        torch::zeros({engine.patches_, words * elements_per_word(engine.kernels_.element)}, type);
    attention.emplace_back(engine.kernels_, engine.tokens_, shape.width / shape.heads);
  }

  torch::Tensor x;                          // [tokens, width] float, what the blocks add to
  torch::Tensor normed;                     // [tokens, width], also what attention gives
  torch::Tensor qkv;                        // [tokens, 3·width]
  torch::Tensor hidden;                     // [rows, mlp_hidden]
  torch::Tensor pixels;                     // [patches, 3·patch²], filled up to whole words
  std::vector<AttentionScratch> attention;  // one for each thread that shares this image
};

std::optional<std::string> refusal(const Architecture& shape, const Kernels& kernels) {
  if (auto reason = beyond_plain(shape)) return reason;
  const std::int64_t unit = elements_per_word(kernels.element);
  for (const std::int64_t size : {shape.width, shape.width / shape.heads, shape.mlp_hidden})
    if (size % unit != 0)
      return concat("its layers have ", size, " features, and ", kernels.name, " takes them in ",
                    "pairs");
  return std::nullopt;
}

Engine::Engine(const VisionTransformerImpl& model, std::int64_t image_size, const Kernels& kernels,
               torch::ScalarType weights)
    : kernels_(kernels),
      architecture_(model.architecture),
      image_size_(image_size),
      tokens_(model.architecture.prefix_tokens()),
      patches_((image_size / architecture_.patch) * (image_size / architecture_.patch)),
      patch_embed_(kernels, weights, plain(model.patch_embed->proj->weight).flatten(1), {}),
      norm_weight_(plain(final_norm(model, true))),
      norm_bias_(plain(final_norm(model, false))) {
  if (const auto reason = refusal(architecture_, kernels)) throw ConfigError(*reason);
  tokens_ += patches_;
  start_ = starting_tokens(model, patches_);
  for (const auto& module : *model.blocks) {
    const auto& block = *module->as<BlockImpl>();
    const auto pack = [&](const Linear& linear, const torch::Tensor& scale = {}) {
      return PackedLinear(kernels, weights, plain(linear->weight),
                          linear->bias.defined() ? plain(linear->bias) : torch::Tensor(), scale);
    };
    blocks_.push_back({plain(block.norm1->weight), plain(block.norm1->bias),
                       plain(block.norm2->weight), plain(block.norm2->bias), pack(block.attn->qkv),
                       pack(block.attn->proj, defined_scale(block.ls1)), pack(block.mlp->fc1),
                       pack(block.mlp->fc2, defined_scale(block.ls2))});
  }
}

Engine::~Engine() = default;

void Engine::embed(const float* image, Workspace& work) const {
  const std::int64_t patch = architecture_.patch, grid = image_size_ / patch;
  const std::int64_t row_bytes = work.pixels.stride(0) * bytes_of(kernels_.element);
  auto* const pixels = static_cast<char*>(work.pixels.data_ptr());
  at::parallel_for(0, grid, 4, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row)
      for (std::int64_t column = 0; column < grid; ++column)
        for (std::int64_t line = 0; line < 3 * patch; ++line) {
          const std::int64_t channel = line / patch, y = row * patch + line % patch;
          kernels_.convert(image + (channel * image_size_ + y) * image_size_ + column * patch,
                           patch,
                           pixels + (row * grid + column) * row_bytes +
                               line * patch * bytes_of(kernels_.element));
        }
  });
  std::memcpy(work.x.data_ptr(), start_.const_data_ptr(), start_.nbytes());
  const std::int64_t width = architecture_.width;
  patch_embed_.apply(pixels, patches_, &Kernels::add,
                     work.x.data_ptr<float>() + architecture_.prefix_tokens() * width, width);
}

void Engine::run_block(const Block& block, Workspace& work) const {
  const std::int64_t width = architecture_.width, heads = architecture_.heads;
  const std::int64_t bytes = bytes_of(kernels_.element), head_width = width / heads;
  float* const x = work.x.data_ptr<float>();
  auto* const normed = static_cast<char*>(work.normed.data_ptr());
  auto* const qkv = static_cast<char*>(work.qkv.data_ptr());
  const auto normalise = [&](const torch::Tensor& weight, const torch::Tensor& bias) {
    at::parallel_for(0, tokens_, 32, [&](std::int64_t begin, std::int64_t end) {
      kernels_.layer_norm(x + begin * width, end - begin, width, weight.const_data_ptr<float>(),
                          bias.const_data_ptr<float>(), normed + begin * width * bytes);
    });
  };

  normalise(block.norm1_weight, block.norm1_bias);
  block.qkv.apply(normed, tokens_, &Kernels::store, qkv, 3 * width);
  at::parallel_for(0, heads, 1, [&](std::int64_t begin, std::int64_t end) {
    AttentionScratch& scratch = work.attention[static_cast<std::size_t>(at::get_thread_num())];
    for (std::int64_t head = begin; head < end; ++head) {
      const std::int64_t offset = head * head_width * bytes;
      attend(kernels_, tokens_, head_width, width, qkv + offset, normed + offset, scratch);
    }
  });
  block.proj.apply(normed, tokens_, &Kernels::add, x, width);

  normalise(block.norm2_weight, block.norm2_bias);
  void* const hidden = work.hidden.data_ptr();
  const std::int64_t passes = (tokens_ + kMlpRows - 1) / kMlpRows;
  for (std::int64_t i = 0; i < passes; ++i) {
    const std::int64_t first = tokens_ * i / passes, rows = tokens_ * (i + 1) / passes - first;
    block.fc1.apply(normed + first * width * bytes, rows, &Kernels::gelu, hidden,
                    architecture_.mlp_hidden);
    block.fc2.apply(hidden, rows, &Kernels::add, x + first * width, width);
  }
}

// Final norm and pooling, in float. With fc_norm the norm comes after the mean.
void Engine::pool(Pooling pooling, Workspace& work, float* out) const {
  const std::int64_t width = architecture_.width;
  const float* const weight = norm_weight_.const_data_ptr<float>();
  const float* const bias = norm_bias_.const_data_ptr<float>();
  const auto norm = fastest_fp32_kernels()->layer_norm;
  float* const x = work.x.data_ptr<float>();
  if (!architecture_.fc_norm) norm(x, tokens_, width, weight, bias, x);
  float* to = out;
  if (pooling != Pooling::kMean) {
    std::copy(x, x + width, to);
    to += width;
  }
  if (pooling != Pooling::kCls) {
    std::fill(to, to + width, 0.0f);
    for (std::int64_t row = architecture_.prefix_tokens(); row < tokens_; ++row)
      for (std::int64_t c = 0; c < width; ++c) to[c] += x[row * width + c];
    for (std::int64_t c = 0; c < width; ++c) to[c] /= static_cast<float>(patches_);
    to += width;
  }
  if (architecture_.fc_norm) norm(out, (to - out) / width, width, weight, bias, out);
}

void Engine::run_image(const float* image, Pooling pooling, Workspace& work, float* out) const {
  embed(image, work);
  for (const Block& block : blocks_) run_block(block, work);
  pool(pooling, work, out);
}

torch::Tensor Engine::forward(const torch::Tensor& images, Pooling pooling) {
  const std::int64_t batch = images.size(0), threads = at::get_num_threads();
  const std::int64_t pixels = 3 * image_size_ * image_size_;
  const std::int64_t dimension = architecture_.width * (pooling == Pooling::kClsMean ? 2 : 1);
  torch::Tensor features = torch::empty({batch, dimension});
  const float* const in = images.const_data_ptr<float>();
  float* const out = features.data_ptr<float>();
  for (auto i = static_cast<std::int64_t>(workspaces_.size()); i < threads; ++i)
    workspaces_.push_back(std::make_unique<Workspace>(*this));
  auto& scratches = workspaces_[0]->attention;  // for images that all threads share
  while (scratches.size() < static_cast<std::size_t>(threads))
    scratches.emplace_back(kernels_, tokens_, architecture_.width / architecture_.heads);
  const auto run = [&](std::int64_t image, std::int64_t thread) {
    run_image(in + image * pixels, pooling, *workspaces_[static_cast<std::size_t>(thread)],
              out + image * dimension);
  };

  const std::int64_t whole = batch / threads * threads;
  std::atomic<std::int64_t> next{0};
  at::parallel_for(0, std::min(threads, whole), 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t thread = begin; thread < end; ++thread)
      for (std::int64_t image; (image = next++) < whole;) run(image, thread);
  });
  for (std::int64_t image = whole; image < batch; ++image) run(image, 0);
  return features;
}

}  // namespace coldframe::vit::cpu
