#include "extract/vit/gpu/device_weights.h"

#include "common/text/text.h"

namespace coldframe::vit::gpu {
namespace {

using Attentions = std::vector<AttentionWeights>;  // of each block

Attentions attentions_of(const VisionTransformerImpl& model) {
  Attentions all;
  const auto turns = rotations(model.architecture, model.grid, model.rope_freqs);
  for (std::size_t i = 0; i < turns.size(); ++i) {
    const std::vector<Branch>& branches = model.blocks[i]->branches[0];
    all.push_back(branches.size() == 1 ? attention_weights(*branches[0].attention, turns[i])
                                       : AttentionWeights());
  }
  return all;
}

// Gives a copy of the model its tensors on the device, and shapes for what DeviceWeights keeps
// otherwise.
class Source : public WeightSource {
 public:
  Source(const VisionTransformerImpl& model, const Attentions& attentions,
         const EngineOptions& options)
      : options_(options) {
    for (const auto& parameter : model.named_parameters())
      tensors_[parameter.key()] = parameter.value().detach();
    tensors_.erase("patch_embed.proj.weight");
    for (std::size_t i = 0; i < attentions.size(); ++i) {
      const AttentionWeights& own = attentions[i];
      const std::string prefix = concat("blocks.", i, ".attn.");
      for (const auto& [name, tensor] : {std::pair("qkv.weight", own.qkv),
                                         {"qkv.bias", own.qkv_bias},
                                         {"q_norm.weight", own.q_norm},
                                         {"q_norm.bias", own.q_norm_bias},
                                         {"k_norm.weight", own.k_norm},
                                         {"k_norm.bias", own.k_norm_bias}})
        if (tensor.defined()) tensors_[prefix + name] = tensor;
    }
  }

  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override {
    const torch::Tensor& found = tensors_[name];
    if (!found.defined() || found.sizes() != shape) return torch::empty(shape, torch::kMeta);
    const bool matrix =
        name.starts_with("blocks.") && name.ends_with(".weight") && shape.size() == 2;
    return found.to(options_.device, matrix ? options_.type : torch::kFloat).contiguous();
  }

 private:
  std::map<std::string, torch::Tensor> tensors_;
  const EngineOptions& options_;
};

VisionTransformer on_device(const VisionTransformerImpl& from, const Attentions& attentions,
                            const EngineOptions& options) {
  Source source(from, attentions, options);
  return VisionTransformer(Scope(source), from.architecture, options.image_size,
                           from.projection ? from.projection->weight.size(0) : 0);
}

}  // namespace

DeviceWeights::DeviceWeights(const VisionTransformerImpl& from, const EngineOptions& options)
    : DeviceWeights(from, options, attentions_of(from)) {}

DeviceWeights::DeviceWeights(const VisionTransformerImpl& from, const EngineOptions& options,
                             const Attentions& attentions)
    : model(on_device(from, attentions, options)) {
  const torch::Tensor weight = from.patch_embed->proj->weight.detach().flatten(1);
  const std::int64_t columns = weight.size(1);
  const std::int64_t pitch = (columns + kPatchColumns - 1) / kPatchColumns * kPatchColumns;
  patch_embed = at::constant_pad_nd(weight, {0, pitch - columns}).to(options.device, options.type);
  start = starting_tokens(from, from.grid.patches()).to(options.device);
  for (const AttentionWeights& own : attentions) {
    const auto copied = [&](const torch::Tensor& tensor) {
      return tensor.defined() ? tensor.to(options.device).contiguous() : tensor;
    };
    turns.push_back({copied(own.sine), copied(own.cosine)});
  }
  labels_[patch_embed.storage().data()] = "patch_embed";
  for (const auto& module : model->named_modules())
    if (const auto* const linear = module.value()->as<LinearImpl>();
        linear && !linear->weight.is_meta())
      labels_[linear->weight.storage().data()] = module.key().substr(module.key().rfind('.') + 1);
}

const std::string& DeviceWeights::label(const torch::Tensor& weight) const {
  return labels_.at(weight.storage().data());
}

}  // namespace coldframe::vit::gpu
