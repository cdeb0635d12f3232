// A transformer encoder over frames (Vaswani et al. 2017) with the norms first (Xiong et al. 2020).
// Each frame attends to all of its exam. Its place turns queries and keys (rotary positions, Su et
// al. 2021, arXiv:2104.09864; halves of a head turn together, as in GPT-NeoX), so that attention
// depends on how far apart two frames are: in seconds, counted in the geometric mean interval of
// the training part, or in frames where times are unknown or the model is not told them. Its own
// tensors are torch.nn.TransformerEncoder's, L = 0 …:
//   time.weight [H, I - H], .bias                          with time: what is added for it
//   transformer.layers.L.self_attn.in_proj_weight [3H, H], .in_proj_bias; q, k, v
//   transformer.layers.L.self_attn.out_proj.weight [H, H], .bias
//   transformer.layers.L.linear1.weight [2H, H], .bias     GELU behind it
//   transformer.layers.L.linear2.weight [H, 2H], .bias
//   transformer.layers.L.norm1.weight, .norm2.weight [H], .bias
//   transformer.norm.weight [H], .bias
#include "common/text/text.h"
#include "train_temporal/models/network/network.h"
#include "train_temporal/models/network/operations.h"
#include "train_temporal/models/registry.h"

namespace coldframe::temporal {
namespace {

Value transformer_layer(Operations& ops, const Value& x, std::int64_t layer) {
  const std::string name = concat("transformer.layers.", layer, ".");
  for (const char* part : {"self_attn", "linear1", "linear2", "norm1", "norm2"})
    ops.place(name + part);
  const std::int64_t hidden = x.width;
  Value y = ops.linear(ops.norm(x, name + "norm1"), name + "self_attn.in_proj_", 3 * hidden);
  y = ops.linear(ops.attend(y), name + "self_attn.out_proj", hidden);
  const Value attended = ops.add(x, ops.dropout(y, layer_dropout(2 * layer)));
  y = ops.gelu(ops.linear(ops.norm(attended, name + "norm2"), name + "linear1", 2 * hidden));
  y = ops.linear(y, name + "linear2", hidden);
  return ops.add(attended, ops.dropout(y, layer_dropout(2 * layer + 1)));
}

Value transformer_layers(Operations& ops, const ModelConfig& config, Value x) {
  if (const std::int64_t beside = x.width - config.hidden; beside > 0) {
    const Value time = ops.linear(ops.columns(x, config.hidden, beside), "time", config.hidden);
    x = ops.add(ops.columns(x, 0, config.hidden), time);
  }
  for (std::int64_t layer = 0; layer < config.layers; ++layer) x = transformer_layer(ops, x, layer);
  return ops.norm(x, "transformer.norm");
}

const Architecture kTransformer{.name = "transformer",
                                .make = make<Network>,
                                .layers_over_frames = transformer_layers,
                                .ordered = true,
                                .even_width = true,
                                .layers = 2,
                                .kept = {7.5, 10.6, 4, 8, 5.5}};

constexpr NamedModel kTransformerNames[] = {
    {.name = "transformer",
     .architecture = &kTransformer,
     .about = "frames in order, read both ways"},
};

}  // namespace

std::span<const NamedModel> transformer_models() {
  return kTransformerNames;
}

}  // namespace coldframe::temporal
