// A temporal convolutional network (Bai, Kolter and Koltun 2018, arXiv:1803.01271): residual blocks
// of two convolutions over three frames each, d = 2^L apart in block L. A convolution sees a frame
// and those before it, none after it, so that frames that follow cannot change what is known of
// one; before the first frame are zeros.
//   x ← g(x' + g(conv2(g(conv1(x)))))     x' = downsample(x) where widths differ, else x
// g is GELU in place of the paper's ReLU, smooth as integrated gradients want it, with dropout
// behind each convolution's; weights are not normalised. Its own tensors are torch.nn.Conv1d's:
//   tcn.L.conv1.weight [H, I or H, 3], .bias        tcn.L.conv2.weight [H, H, 3], .bias
//   tcn.0.downsample.weight [H, I, 1], .bias        with time, where I is not H
#include "common/text/text.h"
#include "train_temporal/models/network/network.h"
#include "train_temporal/models/network/operations.h"
#include "train_temporal/models/registry.h"

namespace coldframe::temporal {
namespace {

constexpr std::int64_t kTcnTaps = 3;  // frames that a convolution sees

Value tcn_block(Operations& ops, const ModelConfig& config, const Value& x, std::int64_t layer) {
  const std::string name = concat("tcn.", layer, ".");
  const std::int64_t hidden = config.hidden, dilation = std::int64_t{1} << layer;
  Value y = ops.gelu(ops.convolve(x, name + "conv1", hidden, kTcnTaps, dilation));
  y = ops.dropout(y, layer_dropout(2 * layer));
  y = ops.gelu(ops.convolve(y, name + "conv2", hidden, kTcnTaps, dilation));
  y = ops.dropout(y, layer_dropout(2 * layer + 1));
  const Value beside = x.width == hidden ? x : ops.convolve(x, name + "downsample", hidden, 1, 1);
  return ops.gelu(ops.add(beside, y));
}

Value tcn_layers(Operations& ops, const ModelConfig& config, Value x) {
  for (std::int64_t layer = 0; layer < config.layers; ++layer) x = tcn_block(ops, config, x, layer);
  return x;
}

// The last frame of three blocks sees 28 before it; sixteen reach back 262140 frames.
const Architecture kTcn{.name = "tcn",
                        .make = make<Network>,
                        .layers_over_frames = tcn_layers,
                        .ordered = true,
                        .layers = 3,
                        .most_layers = 16,
                        .kept = {6.5, 11, 0, 10.2}};

constexpr NamedModel kConvolutionalNames[] = {
    {.name = "tcn", .architecture = &kTcn, .about = "frames in order, some before each at a time"},
};

}  // namespace

std::span<const NamedModel> convolutional_models() {
  return kConvolutionalNames;
}

}  // namespace coldframe::temporal
