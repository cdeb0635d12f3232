// Mean over frames, plain or by attention (Ilse et al. 2018), of what a hidden layer (GELU, smooth
// as integrated gradients want it) makes of each frame's projected features: the GRU's width and
// regularisation without its memory, so that it loses for want of the order alone. `single` is this
// model on one frame, or of targets per frame on each frame by itself. Its own tensors:
//   hidden.weight [H, H], .bias
#include "train_temporal/models/network/network.h"
#include "train_temporal/models/network/operations.h"
#include "train_temporal/models/registry.h"

namespace coldframe::temporal {
namespace {

Value pooled_layers(Operations& ops, const ModelConfig& config, Value x) {
  return ops.gelu(ops.linear(x, "hidden", config.hidden));
}

const Architecture kMean{
    .name = "mean", .make = make<Network>, .layers_over_frames = pooled_layers, .kept = {4.8}};
const Architecture kAttention{.name = "attention",
                              .make = make<Network>,
                              .layers_over_frames = pooled_layers,
                              .pool = TemporalPool::kAttention,
                              .per_frame = false,
                              .kept = {5.8}};

constexpr NamedModel kPooledNames[] = {
    {.name = "attention",
     .architecture = &kAttention,
     .about = "mean of the frames, weighted by what each shows",
     .learns_frames = false},
    {.name = "mean",
     .architecture = &kMean,
     .about = "mean of the frames",
     .compared = true,
     .learns_frames = false,
     .names_covariates = true},
    {.name = kSingle,
     .architecture = &kMean,
     .about = "one frame of each exam",
     .order = FrameOrder::kMiddle,
     .compared = true,
     .about_frames = "each frame by itself",
     .names_covariates = true},
};

}  // namespace

std::span<const NamedModel> pooled_models() {
  return kPooledNames;
}

}  // namespace coldframe::temporal
