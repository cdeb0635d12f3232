// The temporal models: pooled frames, recurrent, convolutional, transformer, and without frames.
#include "common/text/text.h"
#include "common/torch/internals.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/models/operations.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

// A hidden layer (GELU: smooth, as integrated gradients require) on each frame's projected
// features, then their mean, plain or by attention (Ilse et al. 2018). It has the GRU's width and
// regularisation without its memory, so that it differs only in ignoring the order. `single` is
// this model on one frame or, for per-frame targets, on each frame separately. Its own tensors:
//   hidden.weight [H, H], .bias

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

// A GRU or an LSTM over frames. Its own tensors:
//   gru.weight_ih_l0 [3H, I], gru.weight_hh_l0, … as torch.nn.GRU names them,
//   or lstm.weight_ih_l0 [4H, I], … as torch.nn.LSTM does
//   decay_l0.weight [H, 1], .bias   with that encoding of time, one for each layer

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
                         .kept = kLstmByOneDnn
                                     ? KeptValues{.once = 9.3, .by_layer = 15.4, .weights = 2.4}
                                     : KeptValues{9.3, 7.4}};

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

// A temporal convolutional network (Bai, Kolter and Koltun 2018, arXiv:1803.01271): residual blocks
// of two convolutions over three frames each, with dilation d = 2^L in block L. Convolutions are
// causal, so that later frames cannot affect earlier outputs; zeros precede the first frame.
//   x ← g(x' + g(conv2(g(conv1(x)))))     x' = downsample(x) where widths differ, else x
// g is GELU instead of the paper's ReLU (smooth, as integrated gradients require), followed by
// dropout; weights are not normalised. Its own tensors are torch.nn.Conv1d's:
//   tcn.L.conv1.weight [H, I or H, 3], .bias        tcn.L.conv2.weight [H, H, 3], .bias
//   tcn.0.downsample.weight [H, I, 1], .bias        with time, where I is not H

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
                        .max_layers = 16,
                        .kept = {6.5, 11, 0, 10.2}};

constexpr NamedModel kConvolutionalNames[] = {
    {.name = "tcn", .architecture = &kTcn, .about = "frames in order, some before each at a time"},
};

}  // namespace

std::span<const NamedModel> convolutional_models() {
  return kConvolutionalNames;
}

// A pre-norm transformer encoder (Vaswani et al. 2017; Xiong et al. 2020) over frames. Each frame
// attends to all frames of its exam. Queries and keys are rotated by position (RoPE, Su et al.
// 2021, arXiv:2104.09864; paired by halves of a head, as in GPT-NeoX), so that attention depends on
// the distance of two frames: in seconds, in units of the geometric mean interval of the training
// part, or in frames if times are unknown or not an input. Its own tensors are
// torch.nn.TransformerEncoder's, L = 0 …:
//   time.weight [H, I - H], .bias                          with time: what is added for it
//   transformer.layers.L.self_attn.in_proj_weight [3H, H], .in_proj_bias; q, k, v
//   transformer.layers.L.self_attn.out_proj.weight [H, H], .bias
//   transformer.layers.L.linear1.weight [2H, H], .bias     GELU behind it
//   transformer.layers.L.linear2.weight [H, 2H], .bias
//   transformer.layers.L.norm1.weight, .norm2.weight [H], .bias
//   transformer.norm.weight [H], .bias

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

// The controls without frames: MLPs on how exams were acquired, or on covariates only.
//   clock: clock_mean, clock_std [F]; project.weight [32, F], .bias; per frame F + 3 inputs, the
//          frame's place and time being the last, and time_mean, time_std [V], V = time_values()
//   covariates: project.weight [H, K], .bias

namespace {

constexpr std::int64_t kClockHidden = 32;

Value clock_outputs(Operations& ops, const ModelConfig& config) {
  return head_of(ops, config, ops.relu(ops.linear(ops.clock(), "project", kClockHidden)));
}

Value covariate_outputs(Operations& ops, const ModelConfig& config) {
  return head_of(ops, config, ops.relu(ops.linear(ops.covariates(), "project", config.hidden)));
}

const Architecture kCovariates{
    .name = "covariates", .make = make<Network>, .whole = covariate_outputs, .sees_frames = false};

constexpr NamedModel kNamesWithoutFrames[] = {
    {.name = "clock",
     .architecture = &kClock,
     .about = "(control): no images, only length, times, frame size, file type",
     .compared = true},
    {.name = kCovariatesAlone,
     .architecture = &kCovariates,
     .about = "(control): no images, the covariates alone"},
};

}  // namespace

const Architecture kClock{.name = "clock",
                          .make = make<Network>,
                          .whole = clock_outputs,
                          .sees_frames = false,
                          .takes_covariates = false};

std::span<const NamedModel> models_without_frames() {
  return kNamesWithoutFrames;
}

}  // namespace coldframe::temporal
