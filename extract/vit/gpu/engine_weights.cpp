// Casts a model's weights to what the engine computes with.
#include "extract/vit/gpu/engine.h"
#include "extract/vit/inference_weights.h"

namespace coldframe::vit::gpu {

torch::Tensor Engine::floats_on_device(const torch::Tensor& tensor) const {
  return tensor.defined() ? tensor.detach().to(options_.device, torch::kFloat).contiguous()
                          : tensor;
}

Engine::Linear Engine::cast(const torch::Tensor& weight, const torch::Tensor& bias) const {
  const auto to_type = [&](const torch::Tensor& tensor) {
    return tensor.detach().to(options_.device, options_.type).contiguous();
  };
  return {to_type(weight).t(), bias.defined() ? to_type(bias) : bias};
}

Engine::Norm Engine::cast_norm(const torch::Tensor& weight, const torch::Tensor& bias) const {
  if (!weight.defined()) return {};
  const torch::Tensor own = floats_on_device(weight);
  return {own, bias.defined() ? floats_on_device(bias) : torch::zeros_like(own),
          architecture_.norm_epsilon, bias.defined()};
}

Engine::Norm Engine::cast(const vit::Norm& layer) const {
  return layer ? cast_norm(layer->weight, layer->bias) : Norm();
}

Engine::Block Engine::cast(const BlockImpl& block, const Rotation& rotation) const {
  const auto scale = [&](const LayerScale& layer) {
    return layer ? floats_on_device(layer->gamma) : torch::Tensor();
  };
  Block to;
  const Branch& attends = block.branches[0][0];
  const Branch& perceptron = block.branches[1][0];
  to.norm1 = cast(attends.norm);
  to.norm2 = cast(perceptron.norm);
  to.scale1 = scale(attends.scale);
  to.scale2 = scale(perceptron.scale);
  cast_attention(*attends.attention, rotation, to);
  cast_perceptron(*perceptron.mlp, to);
  return to;
}

void Engine::cast_attention(const AttentionImpl& attention, const Rotation& rotation,
                            Block& to) const {
  const AttentionWeights weights = attention_weights(attention, rotation);
  to.qkv = cast(weights.qkv, weights.qkv_bias);
  to.q_norm = cast_norm(weights.q_norm, weights.q_norm_bias);
  to.k_norm = cast_norm(weights.k_norm, weights.k_norm_bias);
  to.sine = floats_on_device(weights.sine);
  to.cosine = floats_on_device(weights.cosine);
  to.attention_norm = cast(attention.norm);
  if (attention.relative.defined())
    to.relative = attention.relative.detach().to(options_.device, options_.type).unsqueeze(0);
  to.proj = cast(attention.proj->weight, torch::Tensor());
  to.proj_bias = floats_on_device(attention.proj->bias);
}

// The hidden layer is filled up with zeros, which gates and activations leave zeros.
void Engine::cast_perceptron(const MlpImpl& mlp, Block& to) const {
  const std::int64_t own = architecture_.mlp_hidden, parts = architecture_.gated_mlp ? 2 : 1;
  const auto filled = [&](const torch::Tensor& rows) {  // [parts · own, n] -> [parts · hidden, n]
    const torch::Tensor by_part = rows.view({parts, own, rows.size(1)});
    return at::constant_pad_nd(by_part, {0, 0, 0, hidden_ - own}).flatten(0, 1);
  };
  to.fc1 = cast(filled(mlp.fc1->weight), torch::Tensor());
  if (mlp.fc1->bias.defined())
    to.fc1_bias = floats_on_device(filled(mlp.fc1->bias.unsqueeze(1)).squeeze(1));
  to.mlp_norm = cast(mlp.norm);
  to.fc2 = cast(at::constant_pad_nd(mlp.fc2->weight, {0, hidden_ - own}), torch::Tensor());
  to.fc2_bias = floats_on_device(mlp.fc2->bias);
}

// A copy: the model's own stays where it is.
AttentionPool Engine::pool_on_device(const AttentionPool& pool) const {
  StateDict tensors;
  for (const auto& parameter : pool->named_parameters())
    tensors[parameter.key()] = floats_on_device(parameter.value());
  StateDictSource source(std::move(tensors));
  return AttentionPool(Scope(source), architecture_);
}

}  // namespace coldframe::vit::gpu
