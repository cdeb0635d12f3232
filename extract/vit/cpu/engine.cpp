#include "extract/vit/cpu/engine.h"

#include <ATen/Parallel.h>

#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/cpu/workspace.h"
#include "extract/vit/inference_weights.h"

namespace coldframe::vit::cpu {

namespace {

torch::Tensor plain(const torch::Tensor& parameter) {
  return !parameter.defined() ? parameter
                              : parameter.detach().to(torch::kCPU, torch::kFloat32).contiguous();
}

torch::Tensor defined_scale(const LayerScale& scale) {
  return scale ? plain(scale->gamma) : torch::Tensor();
}

// Null for an activation that no kernel computes.
const ActivationKernels* find_kernels(const Kernels& kernels, Activation activation) {
  const std::pair<Activation, const ActivationKernels*> known[] = {
      {Activation::kGelu, &kernels.gelu},
      {Activation::kGeluTanh, &kernels.gelu_tanh},
      {Activation::kQuickGelu, &kernels.quick_gelu},
      {Activation::kSilu, &kernels.silu}};
  for (const auto& [name, own] : known)
    if (name == activation) return own;
  return nullptr;
}

Epilogue end_of_fc1(const Kernels& kernels, const Architecture& shape) {
  const ActivationKernels& activation = *find_kernels(kernels, shape.activation);
  return shape.gated_mlp ? activation.gate : activation.alone;
}

// x (elements) [rows, width], unless there is no norm.
void normalise_in_place(const Kernels& kernels, const NormWeights& norm, void* x, std::int64_t rows,
                        std::int64_t width) {
  if (!norm) return;
  at::parallel_for(0, rows, 32, [&](std::int64_t begin, std::int64_t end) {
    kernels.norm_in_place(static_cast<char*>(x) + begin * width * kernels.element_bytes(), width,
                          end - begin, width, norm.factors());
  });
}

}  // namespace

// Shares the norms, tokens and pooling of a model; the weights of its blocks and patches, which the
// engine packs, have shapes alone.
VisionTransformer Engine::without_blocks(const VisionTransformerImpl& model,
                                         const ImageSize& image_size) {
  class Source : public WeightSource {
   public:
    explicit Source(const VisionTransformerImpl& from) : parameters_(from.named_parameters()) {}
    torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override {
      const torch::Tensor* const found = parameters_.find(name);
      const bool packed = name.starts_with("blocks.") || name.starts_with("patch_embed.proj.");
      return found && found->sizes() == shape && !packed ? plain(*found)
                                                         : torch::empty(shape, torch::kMeta);
    }

   private:
    torch::OrderedDict<std::string, torch::Tensor> parameters_;
  };
  Source source(model);
  return VisionTransformer(Scope(source), model.architecture, image_size);
}

std::optional<std::string> refusal(const Architecture& shape, const Kernels& kernels) {
  if (auto reason = beyond_engines(shape)) return reason;
  if (!find_kernels(kernels, shape.activation)) return value_text(shape, "activation");
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
      grid_(model.grid),
      tokens_(architecture_.prefix_tokens() + grid_.patches()),
      model_(without_blocks(model, image_size)),
      patch_embed_(
          kernels, weights, plain(model.patch_embed->proj->weight).flatten(1),
          model.patch_embed->norm ? plain(model.patch_embed->proj->bias) : torch::Tensor()) {
  if (const auto reason = refusal(architecture_, kernels)) throw ConfigError(*reason);
  end_of_fc1_ = end_of_fc1(kernels, architecture_);
  for (const auto& module : model_->modules())
    if (const auto* const norm = module->as<NormImpl>(); norm && !norm->weight.is_meta())
      norms_.emplace(norm, NormWeights(norm->weight, norm->bias, norm->epsilon));
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

// x += attention(norm(x))
void Engine::add_attention(const Block& block, float* x, Workspace& work) const {
  normalise(block.norm1, x, work);
  const std::int64_t width = architecture_.width, head_width = width / architecture_.heads;
  const std::int64_t bytes = kernels_.element_bytes();
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
  block.proj.apply(normed, tokens_, kernels_.add, x, width);
}

// x += mlp(norm(x))
void Engine::add_mlp(const Block& block, float* x, Workspace& work) const {
  normalise(block.norm2, x, work);
  const std::int64_t width = architecture_.width, inner = architecture_.mlp_hidden;
  const auto* const normed = static_cast<const char*>(work.normed.const_data_ptr());
  void* const hidden = work.hidden.data_ptr();
  const std::int64_t passes = (tokens_ + kMlpRows - 1) / kMlpRows;
  for (std::int64_t i = 0; i < passes; ++i) {
    const std::int64_t first = tokens_ * i / passes, rows = tokens_ * (i + 1) / passes - first;
    block.fc1.apply(normed + first * width * kernels_.element_bytes(), rows, end_of_fc1_, hidden,
                    inner);
    normalise_in_place(kernels_, block.mlp_norm, hidden, rows, inner);
    block.fc2.apply(hidden, rows, kernels_.add, x + first * width, width);
  }
}

// x (float) -> normed
void Engine::normalise(const NormWeights& norm, const float* x, Workspace& work) const {
  const std::int64_t width = architecture_.width;
  auto* const normed = static_cast<char*>(work.normed.data_ptr());
  at::parallel_for(0, tokens_, 32, [&](std::int64_t begin, std::int64_t end) {
    kernels_.norm(x + begin * width, end - begin, width, norm.factors(),
                  normed + begin * width * kernels_.element_bytes());
  });
}

}  // namespace coldframe::vit::cpu
