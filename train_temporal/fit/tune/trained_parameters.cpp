#include "train_temporal/fit/tune/trained_parameters.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <string_view>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "common/threads/counter_random.h"
#include "train_temporal/data/batcher.h"

namespace coldframe::tune {
namespace {

using vit::Architecture;

void check_options(const TunedSource& source, const TuneOptions& options) {
  const std::int64_t depth = source.architecture().depth, most = depth - source.cut();
  if (options.blocks < 0 || options.blocks > most)
    throw ConfigError(concat("--tune-blocks ", options.blocks,
                             ": the cache holds what enters block ", source.cut(), " of ", depth,
                             ", so at most ", most, " can be trained; extract with --cut ",
                             std::max<std::int64_t>(depth - options.blocks, 0), " for more"));
  if (options.lora_rank < 0 || options.lora_rank > source.architecture().width)
    throw ConfigError(concat("--lora ", options.lora_rank, ": expected a rank from 1 to ",
                             source.architecture().width, ", the ViT's width"));
  if (options.lora_rank > 0 && options.blocks == 0)
    throw ConfigError("--lora needs the number of blocks that it goes to: --tune-blocks K");
  if (options.drop_path > 0 && source.architecture().block == vit::BlockKind::kPostNorm)
    throw ConfigError(
        "--tune-drop-path leaves out what a block adds, and this ViT's blocks add what a norm "
        "makes of it, which is not 0 then; leave the option out, or take --tune-dropout");
  // Files hold the positions of square grids alone.
  if (trained_shape(source, options).whole() && source.architecture().positions &&
      !source.image_size().is_square())
    throw ConfigError(concat("the positions of images of ", source.image_size(),
                             " cannot be trained, since no file of weights could hold them; ",
                             "tune fewer blocks than all, or use --lora"));
}

// Blocks behind the last layer are left out: no feature, hence no loss, depends on them, and they
// would only decay.
bool is_trained_block(const ChainShape& shape, const ParameterOwner& place) {
  return place.where == ParameterOwner::kBlock && place.block >= shape.first_block() &&
         place.block < vit::layers_of(shape.features, shape.architecture).back();
}

// `name`: as files have it. Pooling that the features do not go through is left out likewise.
bool is_trained(const ChainShape& shape, const std::string& name) {
  if (shape.blocks == 0 || shape.lora_rank > 0) return false;
  const ParameterOwner place = owner_of(name);
  if (place.where == ParameterOwner::kBlock) return is_trained_block(shape, place);
  const bool map = shape.features.pooling == vit::Pooling::kMap;
  if (name.starts_with("fc_norm.")) return !map;
  if (name.starts_with("attn_pool.")) return map;
  return place.where == ParameterOwner::kHead || shape.whole();
}

// Low-rank matrices go beside linear layers of this name, such as "blocks.3.attn.qkv".
bool has_low_rank(std::string_view layer) {
  return layer.starts_with("blocks.") &&
         std::ranges::any_of(
             std::array<std::string_view, 4>{".qkv", ".proj", ".in_proj", ".attn_out_proj"},
             [&](std::string_view end) { return layer.ends_with(end); });
}

// `layer`: the name of a linear layer, or of any other module.
bool takes_low_rank(const ChainShape& shape, const std::string& layer) {
  return shape.lora_rank > 0 && is_trained_block(shape, owner_of(layer)) && has_low_rank(layer);
}

// Gives a model the source's tensors, or copies of those that are to be trained.
class SharedWeights : public vit::WeightSource {
 public:
  SharedWeights(const TunedSource& source, const ChainShape& shape, const torch::Device& device)
      : source_(source), shape_(shape), device_(device) {}
  torch::Tensor take(const std::string& name, torch::IntArrayRef) override {
    const torch::Tensor tensor = source_.shared(name, device_);
    return is_trained(shape_, name) ? tensor.clone() : tensor.detach();
  }

 private:
  const TunedSource& source_;
  const ChainShape& shape_;
  const torch::Device& device_;
};

// The name that a tensor has in files: rope.freqs is a parameter of the model itself.
std::string stored_name(const std::string& name) {
  return name == "rope_freqs" ? "rope.freqs" : name;
}

// A starts uniform in ±1/√in, as loralib and PyTorch's own layers do, B at 0: the model starts as
// it was.
void add_low_rank(vit::LinearImpl& layer, std::uint64_t number, const ChainShape& shape,
                  std::uint64_t seed) {
  const std::int64_t in = layer.weight.size(1), out = layer.weight.size(0);
  CounterRandom random(
      {seed, static_cast<std::uint64_t>(temporal::RandomPurpose::kLowRank), number});
  torch::Tensor down = torch::empty({shape.lora_rank, in});
  const double bound = 1 / std::sqrt(static_cast<double>(in));
  for (float& value : std::span(down.data_ptr<float>(), static_cast<std::size_t>(down.numel())))
    value = static_cast<float>((2 * random.uniform() - 1) * bound);
  const torch::Device device = layer.weight.device();
  layer.lora_down = layer.register_parameter("lora_down", down.to(device));
  layer.lora_up = layer.register_parameter("lora_up", torch::zeros({out, shape.lora_rank}, device));
  layer.lora_scale = shape.lora_alpha / static_cast<double>(shape.lora_rank);
}

// EVA and BEiT have no bias of keys: theirs are the zeros that stand for it, and stay. (With rotary
// positions it would have a gradient.)
void keep_absent_key_bias(const torch::Tensor& bias) {
  const std::int64_t width = bias.size(0) / 3;
  const auto is_zero = [](const torch::Tensor& part) { return part.eq(0).all().item<bool>(); };
  if (!is_zero(bias.narrow(0, width, width)) || is_zero(bias)) return;
  bias.register_hook([width](const torch::Tensor& gradient) {
    torch::Tensor kept = gradient.clone();
    kept.narrow(0, width, width).zero_();
    return kept;
  });
}

}  // namespace

ParameterOwner owner_of(std::string_view name) {
  constexpr std::string_view kBlocks = "blocks.";
  for (const char* const head : {"norm.", "fc_norm.", "attn_pool.", "projection."})
    if (name.starts_with(head)) return {ParameterOwner::kHead};
  if (!name.starts_with(kBlocks)) return {ParameterOwner::kEmbedding};
  name.remove_prefix(kBlocks.size());
  ParameterOwner place{ParameterOwner::kBlock};
  parse_int(std::string(name.substr(0, name.find('.'))), place.block);
  return place;
}

ChainShape trained_shape(const TunedSource& source, const TuneOptions& options) {
  ChainShape shape;
  shape.architecture = source.architecture();
  shape.image_size = source.image_size();
  shape.features = source.features();
  shape.projected = source.projected();
  shape.cut = source.cut();
  shape.blocks = options.blocks;
  shape.lora_rank = options.lora_rank;
  shape.lora_alpha = options.lora_alpha;
  shape.dropout = options.dropout;
  shape.drop_path = options.drop_path;
  shape.precision = options.precision;
  return shape;
}

std::int64_t trained_values(const ChainShape& shape, const std::string& name,
                            torch::IntArrayRef sizes) {
  constexpr std::string_view kWeight = ".weight";
  if (is_trained(shape, name)) return c10::multiply_integers(sizes);
  if (!name.ends_with(kWeight)) return 0;
  const std::string layer = name.substr(0, name.size() - kWeight.size());
  return takes_low_rank(shape, layer) ? shape.lora_rank * (sizes[0] + sizes[1]) : 0;
}

std::int64_t trained_values(const TunedSource& source, const TuneOptions& options) {
  const ChainShape shape = trained_shape(source, options);
  std::int64_t values = 0;
  for (const auto& [name, tensor] : source.tensors())
    values += trained_values(shape, name, tensor.sizes());
  return values;
}

vit::VisionTransformer make_trained_model(vit::WeightSource& weights, const ChainShape& shape,
                                          std::uint64_t seed) {
  vit::VisionTransformer model(vit::Scope(weights), shape.architecture, shape.image_size,
                               shape.projected);
  for (auto& parameter : model->named_parameters()) {
    if (!is_trained(shape, stored_name(parameter.key()))) continue;
    parameter.value().set_requires_grad(true);
    if (parameter.key().ends_with("qkv.bias")) keep_absent_key_bias(parameter.value());
  }
  std::uint64_t number = 0;
  for (auto& item : model->named_modules("", /*include_self=*/false)) {
    if (takes_low_rank(shape, item.key()))
      add_low_rank(*item.value()->as<vit::LinearImpl>(), number++, shape, seed);
  }
  return model;
}

vit::VisionTransformer make_tuned_model(const TunedSource& source, const TuneOptions& options,
                                        std::uint64_t seed, const torch::Device& device) {
  check_options(source, options);
  const ChainShape shape = trained_shape(source, options);
  SharedWeights weights(source, shape, device);
  return make_trained_model(weights, shape, seed);
}

std::shared_ptr<torch::nn::Module> trained_parameters(const vit::VisionTransformer& model) {
  const auto root = std::make_shared<torch::nn::Module>();
  for (auto& parameter : model->named_parameters()) {
    if (!parameter.value().requires_grad()) continue;
    const std::vector<std::string> path = split(parameter.key(), '.');
    std::shared_ptr<torch::nn::Module> place = root;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      const auto children = place->named_children();
      const auto* known = children.find(path[i]);
      place =
          known ? *known : place->register_module(path[i], std::make_shared<torch::nn::Module>());
    }
    place->register_parameter(path.back(), parameter.value());
  }
  return root;
}

StateDict merged_tensors(const TunedSource& source, const vit::VisionTransformer& model) {
  const torch::NoGradGuard no_grad;
  StateDict merged = source.tensors();
  for (auto& parameter : model->named_parameters()) {
    const std::string name = stored_name(parameter.key());
    if (parameter.value().requires_grad() && merged.contains(name))
      merged[name] =
          parameter.value().detach().to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  }
  for (auto& item : model->named_modules("", /*include_self=*/false)) {
    const auto* layer = item.value()->as<vit::LinearImpl>();
    if (layer == nullptr || !layer->lora_down.defined()) continue;
    merged[item.key() + ".weight"] =
        (layer->weight + layer->lora_scale * torch::mm(layer->lora_up, layer->lora_down)).cpu();
  }
  return merged;
}

}  // namespace coldframe::tune
