// A GRU or an LSTM over frames. Its own tensors:
//   gru.weight_ih_l0 [3H, I], gru.weight_hh_l0, … as torch.nn.GRU names them,
//   or lstm.weight_ih_l0 [4H, I], … as torch.nn.LSTM does
//   decay_l0.weight [H, 1], .bias   with that encoding of time, one for each layer
#include "common/text/text.h"
#include "train_temporal/models/network/network.h"
#include "train_temporal/models/network/operations.h"
#include "train_temporal/models/registry.h"

namespace coldframe::temporal {
namespace {

Value recurrent_layers(Operations& ops, const ModelConfig& config, Value x) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) ops.place(concat("decay_l", layer));
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    if (layer > 0) x = ops.dropout(x, layer_dropout(layer - 1));
    x = ops.recur(x, layer);
  }
  return x;
}

const Architecture kLstm{.name = "lstm",
                         .make = make<Network>,
                         .layers_over_frames = recurrent_layers,
                         .ordered = true,
                         .recurrent = true,
                         .gates = 4,
                         .kept = {9.3, 7.4}};

constexpr NamedModel kRecurrentNames[] = {
    {.name = "gru", .architecture = &kGru, .about = "frames in order", .compared = true},
    {.name = "bigru",
     .architecture = &kGru,
     .about = "frames in order, read both ways",
     .bidirectional = true},
    {.name = "lstm", .architecture = &kLstm, .about = "frames in order"},
};

}  // namespace

const Architecture kGru{.name = "gru",
                        .make = make<Network>,
                        .layers_over_frames = recurrent_layers,
                        .ordered = true,
                        .recurrent = true,
                        .gates = 3,
                        .decays = true,
                        .has_kernels = true,
                        .kept = {4.9, 9},
                        .kept_decaying = {2.2, 12}};

std::span<const NamedModel> recurrent_models() {
  return kRecurrentNames;
}

}  // namespace coldframe::temporal
