#include "train_temporal/fit/tune/chain.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "common/text/text.h"
#include "train_temporal/fit/tune/redrawn_dropout.h"
#include "train_temporal/fit/tune/trained_parameters.h"
#include "train_temporal/models/operations.h"

namespace coldframe::tune {

std::int64_t ChainShape::tokens() const {
  return architecture.prefix_tokens() + vit::Grid(image_size, architecture.patch).patches();
}

std::int64_t ChainShape::feature_count() const {
  if (projected > 0) return projected;
  const std::int64_t patches = vit::Grid(image_size, architecture.patch).patches();
  return vit::pooled_features(features.pooling, architecture, patches) *
         static_cast<std::int64_t>(vit::layers_of(features, architecture).size());
}

std::uint64_t ChainShape::token_bytes() const {
  return static_cast<std::uint64_t>(4 * tokens() * architecture.width);
}

std::uint64_t ChainShape::attention_bytes() const {
  return static_cast<std::uint64_t>(4 * architecture.heads * tokens() * tokens());
}

Chain::Chain(vit::VisionTransformer model, vit::FeatureOptions features, std::int64_t cut,
             torch::Tensor levels, double drop_path)
    : model_(std::move(model)),
      features_(std::move(features)),
      levels_(std::move(levels)),
      drop_path_(drop_path) {
  const auto layers = vit::layers_of(features_, model_->architecture);
  const auto before = [&](std::int64_t block) {
    return std::ranges::lower_bound(layers, block) - layers.begin();
  };
  if (cut == 0) steps_.push_back({Kind::kEmbed});
  for (std::int64_t block = cut; block < layers.back(); ++block)
    steps_.push_back({Kind::kBlock, block, before(block) < before(block + 1), before(block)});
  steps_.push_back({Kind::kHead, layers.back(), true, before(layers.back())});
  find_trained();
}

bool Chain::uses(const Step& step, const std::string& parameter) {
  const ParameterOwner place = owner_of(parameter);
  const bool turns_all = parameter == "rope_freqs";
  if (step.kind == Kind::kEmbed) return place.where == ParameterOwner::kEmbedding && !turns_all;
  if (step.kind == Kind::kHead) return place.where == ParameterOwner::kHead;
  const bool of_block = place.where == ParameterOwner::kBlock && place.block == step.block;
  const bool pools = place.where == ParameterOwner::kHead && !parameter.starts_with("projection.");
  return of_block || turns_all || (step.tap && pools);
}

void Chain::find_trained() {
  for (const Step& step : steps_) {
    std::vector<torch::Tensor>& found = trained_.emplace_back();
    for (const auto& parameter : model_->named_parameters())
      if (parameter.value().requires_grad() && uses(step, parameter.key()))
        found.push_back(parameter.value());
  }
}

std::size_t Chain::first_trained() const {
  const auto found =
      std::ranges::find_if(trained_, [](const auto& of_step) { return !of_step.empty(); });
  return static_cast<std::size_t>(found - trained_.begin());
}

std::string Chain::name(std::size_t index) const {
  const Step& step = steps_[index];
  if (step.kind == Kind::kEmbed) return "patch embedding";
  if (step.kind == Kind::kHead) return "norm and pooling";
  return concat("block ", step.block);
}

std::string Chain::kind(std::size_t index) const {
  const Step& step = steps_[index];
  std::int64_t values = 0;
  for (const torch::Tensor& parameter : trained_[index]) values += parameter.numel();
  std::string text = step.kind == Kind::kBlock ? "block" : name(index);
  if (step.kind == Kind::kBlock && step.tap) text += ", a layer";
  if (step.layers > 0) text += concat(", behind ", step.layers);
  text += concat(", ", values, " trained");
  if (step.kind == Kind::kBlock && dropped_share(step.block) > 0) text += ", left out at times";
  return text;
}

bool Chain::changes_shape(std::size_t index) const {
  return steps_[index].kind != Kind::kBlock || steps_[index].tap;
}

double Chain::dropped_share(std::int64_t block) const {
  const auto last = static_cast<double>(std::max<std::int64_t>(model_->architecture.depth - 1, 1));
  return drop_path_ * static_cast<double>(block) / last;
}

torch::Tensor Chain::embed(Operations& ops, const torch::Tensor& rows) const {
  const auto images_of = [levels = levels_](auto&, const std::vector<torch::Tensor>& in) {
    std::vector<torch::Tensor> channels;  // each [n, H, W]
    for (std::int64_t channel = 0; channel < 3; ++channel) {
      const torch::Tensor plane = in[0].select(3, channel);
      channels.push_back(
          levels[channel].index_select(0, plane.flatten().to(torch::kInt32)).view(plane.sizes()));
    }
    return torch::stack(channels, 1);
  };
  return model_->embed(ops, ops.again(Recompute::kAlways, {rows}, images_of));
}

// The input, and behind it the features of it and of the layers before.
Values Chain::pooled(Operations& ops, const Values& input) const {
  const torch::Tensor found = model_->pooled(ops, input[0], features_.pooling).to(torch::kFloat32);
  return {input[0], input.size() == 1 ? found : torch::cat({input[1], found}, 1)};
}

// What a part adds, [n, tokens, D], with dropout of its values, and for some frames 0 in its place.
torch::Tensor Chain::dropped(const torch::Tensor& added, std::int64_t block, std::size_t part,
                             const Pass& pass) const {
  using temporal::RandomPurpose;
  torch::Tensor x = added;
  if (pass.dropout->active())
    x = redrawn_dropout(x, *pass.dropout, in_block(RandomPurpose::kTokenDropout, block, part),
                        pass.keys);
  const temporal::Dropout path = pass.dropout->of(dropped_share(block));
  if (!path.active()) return x;
  const torch::Tensor factors =
      path.mask(in_block(RandomPurpose::kDropPath, block, part), pass.keys, 1, x.device());
  return x * factors.unsqueeze(2).to(x.scalar_type());
}

Values Chain::forward(std::size_t index, const Values& input, const Pass& pass, Keep keep) const {
  const temporal::Autocast autocast({pass.precision}, input[0].device());
  const Step& step = steps_[index];
  std::optional<TensorRecipes> recipes;
  if (keep != Keep::kWhole) recipes.emplace(keep, pass.precision);
  Operations ops;
  ops.precision = pass.precision;
  ops.recipes = recipes ? &*recipes : nullptr;
  ops.frugal = recipes.has_value();
  if (step.kind == Kind::kEmbed) return {embed(ops, input[0])};
  Values output = step.tap ? pooled(ops, input) : input;
  if (step.kind == Kind::kHead)
    return {vit::apply_if_present(ops, model_->projection, output[1]).to(torch::kFloat32)};
  const vit::BlockImpl& block = model_->block(step.block);
  const vit::Rotation rotation = model_->rotation(step.block, input[0].device());
  for (std::size_t part = 0; part < block.parts(); ++part) {
    if (pass.dropout)
      ops.dropout = [&, part](const torch::Tensor& x) {
        return dropped(x, step.block, part, pass);
      };
    output[0] = block.forward_part(ops, part, output[0], rotation);
  }
  return output;
}

}  // namespace coldframe::tune
