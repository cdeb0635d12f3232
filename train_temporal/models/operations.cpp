#include "train_temporal/models/operations.h"

#include <ATen/autocast_mode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/nn/utils/rnn.h>
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <mutex>
#include <numeric>

#include "common/text/text.h"
#include "common/torch/internals.h"
#include "common/torch/to_device.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

namespace {

// Gated multimodal units (Arevalo et al. 2017, arXiv:1702.01992), with a softmax, since streams may
// be more than two: [v_s, g_s] = fusion.s(f_s), x = Σ_s softmax_s(g_s) ∘ tanh(v_s).
Value weigh_streams(Operations& ops, const ModelConfig& config, const Value& x) {
  const std::int64_t streams = std::ssize(config.streams), width = config.stream_width();
  std::vector<Value> values, scores;
  for (std::int64_t s = 0; s < streams; ++s) {
    const Value both =
        ops.linear(ops.columns(x, s * width, width), concat("fusion.", s), 2 * config.hidden);
    values.push_back(ops.tanh(ops.columns(both, 0, config.hidden)));
    scores.push_back(ops.columns(both, config.hidden, config.hidden));
  }
  return ops.weigh(values, scores, ops.columns(x, streams * width, streams));
}

// x, the times where they are known, and whether they are not; with time2vec also a line and
// sinusoids of the seconds since the first frame.
Value with_times(Operations& ops, const ModelConfig& config, const Value& x) {
  const TimeInputs times = ops.times();
  std::vector<Value> parts = {x, ops.multiply(times.value, times.known),
                              ops.one_minus(times.time_known)};
  if (config.time_encoding == TimeEncoding::kTime2Vec) {
    const Value phase = ops.linear(ops.columns(times.value, 1, 1), "time2vec", kTime2VecInputs);
    const Value periodic = ops.sine(ops.columns(phase, 1, kTime2VecInputs - 1));
    parts.push_back(ops.multiply(ops.join({ops.columns(phase, 0, 1), periodic}), times.time_known));
  }
  return ops.join(parts);
}

}  // namespace

Value outputs_of(Operations& ops, const ModelConfig& config) {
  const Architecture& architecture = *config.architecture;
  if (architecture.whole != nullptr) return architecture.whole(ops, config);
  Value x = config.gated ? weigh_streams(ops, config, ops.features())
                         : ops.linear(ops.features(), "project", config.hidden);
  x = ops.dropout(x, RandomPurpose::kProjectionDropout);
  if (architecture.ordered && config.time) x = with_times(ops, config, x);
  x = architecture.layers_over_frames(ops, config, x);
  return head_of(ops, config, config.per_frame() ? x : ops.pool(x));
}

Value head_of(Operations& ops, const ModelConfig& config, const Value& x) {
  return ops.linear(ops.dropout(x, RandomPurpose::kHeadDropout), "head", config.outputs);
}

TemporalPool pool_of(const ModelConfig& config) {
  return config.per_frame() || config.architecture->ordered ? config.pool
                                                            : config.architecture->pool;
}

Autocast::Autocast(const MixedPrecision& precision, const torch::Device& device)
    : active_(precision.active()),
      device_(device.type()),
      cached_(at::autocast::is_autocast_cache_enabled()) {
  if (!active_) return;
  at::autocast::set_autocast_cache_enabled(false);
  at::autocast::set_autocast_dtype(device_, precision.type);
  at::autocast::set_autocast_enabled(device_, true);
}

Autocast::~Autocast() {
  if (!active_) return;
  at::autocast::set_autocast_enabled(device_, false);
  at::autocast::set_autocast_cache_enabled(cached_);
}

torch::Tensor cast_once(const torch::Tensor& weight) {
  const torch::DeviceType device = weight.device().type();
  using namespace at::autocast;
  if (!is_autocast_available(device) || !is_autocast_enabled(device)) return weight;
  return weight.to(get_autocast_dtype(device));
}

namespace {

bool in_autocast_of(torch::ScalarType type) {  // on the CPU
  using namespace at::autocast;
  return is_autocast_enabled(torch::kCPU) && get_autocast_dtype(torch::kCPU) == type;
}

}  // namespace

torch::Tensor leave_mixed_precision(const torch::Tensor& outputs, const MixedPrecision& precision) {
  if (!precision.active()) return outputs;
  const torch::Tensor full = outputs.to(torch::kFloat32);
  const double scale = precision.gradient_scale;
  if (scale != 1 && full.requires_grad()) {
    full.register_hook([scale](const torch::Tensor& gradient) { return gradient * scale; });
  }
  return full;
}

namespace {

using torch::nn::utils::rnn::PackedSequence;

constexpr std::int64_t kHeadWidth = 16;  // at least, where H can be divided so
constexpr double kRotaryBase = 10000;    // of the slowest pair's turn

// The first packed row of each step; the last entry is N.
std::vector<std::int64_t> first_rows(const PackedBatch& batch) {
  std::vector<std::int64_t> rows(batch.batch_sizes.size() + 1);
  std::partial_sum(batch.batch_sizes.begin(), batch.batch_sizes.end(), rows.begin() + 1);
  return rows;
}

// Standardised inputs x [N, D] with 0 for what is missing, and for all streams but
// config.only_stream, if there is one.
torch::Tensor without_missing(const torch::Tensor& x, const ModelConfig& config) {
  const torch::Tensor known = x.nan_to_num(0.0);
  if (config.only_stream < 0) return known;
  const std::int64_t streams = std::ssize(config.streams), width = config.stream_width();
  torch::Tensor seen = torch::ones({x.size(1)}, x.options());
  seen.narrow(0, 0, streams * width + streams).zero_();
  seen.narrow(0, config.only_stream * width, width).fill_(1);
  seen[streams * width + config.only_stream] = 1;
  return known * seen;
}

// x: [N, 2, h, d], queries and keys
torch::Tensor turned(const torch::Tensor& x, const torch::Tensor& cosine,
                     const torch::Tensor& sine) {
  const std::int64_t half = cosine.size(-1);
  const torch::Tensor a = x.narrow(-1, 0, half), b = x.narrow(-1, half, half);
  return torch::cat({a * cosine - b * sine, b * cosine + a * sine}, -1);
}

// What cuDNN's order of the weights of a recurrent layer depends on.
struct CudnnLayer {
  bool is_lstm, both_ways;
  std::int64_t input, hidden;

  auto operator<=>(const CudnnLayer&) const = default;
  std::int64_t mode() const { return is_lstm ? 2 : 3; }  // cudnnRNNMode_t
  std::int64_t gates() const { return is_lstm ? 4 : 3; }
};

// A copy in that order, [P].
torch::Tensor copied_in_order(at::TensorList weights, const CudnnLayer& layer) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> aliases;  // which the call makes views of its result
  for (const torch::Tensor& weight : weights) aliases.push_back(weight.detach());
  const std::int64_t each = std::ssize(aliases) / (layer.both_ways ? 2 : 1);
  return at::_cudnn_rnn_flatten_weight(aliases, each, layer.input, layer.mode(), layer.hidden, 0, 1,
                                       false, layer.both_ways);
}

// True where it is PyTorch's, one weight behind the other. Tried out once, on numbers that count:
// that waits for the device.
bool keeps_order(const CudnnLayer& layer, const torch::Device& device) {
  static std::mutex mutex;
  static std::map<CudnnLayer, bool> known;
  const std::scoped_lock lock(mutex);
  const auto found = known.find(layer);
  if (found != known.end()) return found->second;
  const std::int64_t rows = layer.gates() * layer.hidden;
  const std::vector<std::int64_t> sizes = {rows * layer.input, rows * layer.hidden, rows, rows};
  const torch::Tensor all = torch::arange(
      std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), torch::device(device));
  std::vector<torch::Tensor> weights = all.to(torch::kFloat32).split_with_sizes(sizes);
  weights[0] = weights[0].view({rows, layer.input});
  weights[1] = weights[1].view({rows, layer.hidden});
  return known[layer] = copied_in_order(weights, layer).equal(all.to(torch::kFloat32));
}

// And where memory that LibTorch allocates could begin.
bool lie_in_a_row(at::TensorList weights) {
  constexpr std::uintptr_t kAlignment = 256;
  if (reinterpret_cast<std::uintptr_t>(weights[0].const_data_ptr()) % kAlignment != 0) return false;
  for (std::size_t i = 1; i < weights.size(); ++i)
    if (weights[i].const_data_ptr<float>() !=
        weights[i - 1].const_data_ptr<float>() + weights[i - 1].numel())
      return false;
  return true;
}

// The optimizer's own memory where it has that order, as it has of layers that read one way.
torch::Tensor weights_in_order(at::TensorList weights, const CudnnLayer& layer) {
  if (layer.both_ways || !lie_in_a_row(weights) || !keeps_order(layer, weights[0].device()))
    return copied_in_order(weights, layer);
  std::int64_t size = 0;
  for (const torch::Tensor& weight : weights) size += weight.numel();
  return weights[0].detach().as_strided({size}, {1});
}

torch::Tensor int_tensor(const std::vector<std::int64_t>& values, const torch::Device& device) {
  return to_device(torch::tensor(values, torch::kInt64), device);
}

}  // namespace

std::int64_t attention_heads(std::int64_t hidden) {
  for (std::int64_t heads = hidden / kHeadWidth; heads > 1; --heads) {
    if (hidden % (2 * heads) == 0) return heads;
  }
  return 1;
}

torch::Tensor rotary_speeds(std::int64_t hidden) {
  const std::int64_t width = hidden / attention_heads(hidden);
  return torch::pow(kRotaryBase,
                    -2.0 * torch::arange(width / 2, torch::kFloat64) / static_cast<double>(width));
}

PackedFrames::PackedFrames(const ModelConfig& config, const StateDict& tensors,
                           const torch::Tensor& features, const PackedBatch& batch,
                           const Dropout& dropout, const torch::Tensor& covariates, bool training)
    : Operations(config),
      tensors_(tensors),
      features_(features),
      time_(batch.tensors.time),
      batch_(batch),
      dropout_(dropout),
      covariates_(covariates),
      training_(training),
      device_(batch.tensors.time.device()),
      first_(first_rows(batch)) {}

Value PackedFrames::features() {
  torch::Tensor x = (features_ - tensor("feature_mean")) / tensor("feature_std");
  if (!config_.blank) dropout_.add_noise(batch_.row_keys, x);
  return of(config_.streams.empty() ? x : without_missing(x, config_));
}

TimeInputs PackedFrames::times() {
  const std::int64_t values = config_.time_values();
  return {of((time_.narrow(1, kLogInterval, values) - tensor("time_mean")) / tensor("time_std")),
          of(time_.narrow(1, kIntervalKnown, values)), of(time_.narrow(1, kTimeKnown, 1))};
}

Value PackedFrames::linear(const Value& x, const std::string& name, std::int64_t) {
  return of(at::linear(x.tensor, tensor(weight_of(name)), tensor(bias_of(name))));
}

Value PackedFrames::norm(const Value& x, const std::string& name) {
  return of(torch::layer_norm(x.tensor, {x.width}, tensor(weight_of(name)), tensor(bias_of(name))));
}

Value PackedFrames::join(const std::vector<Value>& parts) {
  std::vector<torch::Tensor> tensors;
  for (const Value& part : parts) tensors.push_back(part.tensor);
  return of(torch::cat(tensors, 1));
}

Value PackedFrames::weigh(const std::vector<Value>& values, const std::vector<Value>& scores,
                          const Value& there) {
  std::vector<torch::Tensor> all_values, all_scores;
  for (const Value& value : values) all_values.push_back(value.tensor);
  for (const Value& score : scores) all_scores.push_back(score.tensor);
  const torch::Tensor score = torch::stack(all_scores);         // [S, N, H]
  const torch::Tensor present = there.tensor.t().unsqueeze(2);  // [S, N, 1]
  const torch::Tensor weight = present * (score - std::get<0>(score.detach().max(0, true))).exp();
  // The sum is 0 where no stream is left, as in a control that sees another one alone.
  constexpr double kNothing = 1e-12;
  return of((weight * torch::stack(all_values)).sum(0) / weight.sum(0).clamp_min(kNothing));
}

Value PackedFrames::dropout(const Value& x, RandomPurpose layer) {
  return of(dropout_(x.tensor, layer, of_exams_ ? batch_.exam_keys : batch_.row_keys));
}

Value PackedFrames::covariates() {
  of_exams_ = !config_.per_frame();
  return of(covariates_of(covariates_, batch_, config_.per_frame(), device_));
}

// Of a frame also where it stands among its exam's, from 0 to 1, the seconds since the first and
// whether these are unknown: [B, F] → [N, F + 3].
Value PackedFrames::clock() {
  torch::Tensor x =
      (batch_.tensors.clock.narrow(1, 0, config_.clock_width) - tensor("clock_mean")) /
      tensor("clock_std");
  dropout_.add_noise(batch_.exam_keys, x);
  of_exams_ = !config_.per_frame();
  if (of_exams_) return of(x);
  std::vector<std::int64_t> exam;
  std::vector<float> place;
  for (const std::int64_t reaching : batch_.batch_sizes) {
    for (std::int64_t i = 0; i < reaching; ++i) {
      exam.push_back(i);
      place.push_back(static_cast<float>(batch_.positions[place.size()]));
    }
  }
  const torch::Tensor exams = int_tensor(exam, device_);
  const torch::Tensor last =
      (batch_.tensors.clock.select(1, kClockLogFrames).expm1() - 1).clamp_min(1);  // [B]
  const torch::Tensor known = time_.narrow(1, kTimeKnown, 1);
  const torch::Tensor since =
      (time_.narrow(1, kSinceFirst, 1) - tensor("time_mean").narrow(0, 1, 1)) /
      tensor("time_std").narrow(0, 1, 1) * known;
  return of(torch::cat(
      {x.index_select(0, exams),
       (to_device(torch::tensor(place), device_) / last.index_select(0, exams)).unsqueeze(1), since,
       1 - known},
      1));
}

std::vector<torch::Tensor> PackedFrames::recurrent_weights(std::int64_t layer) const {
  std::vector<torch::Tensor> weights;
  const std::string name = config_.architecture->name;
  for (const char* end : {"", "_reverse"}) {
    if (*end != '\0' && !config_.bidirectional) continue;
    for (const char* part : {".weight_ih", ".weight_hh", ".bias_ih", ".bias_hh"})
      weights.push_back(tensor(concat(name, part, "_l", layer, end)));
  }
  return weights;
}

Value PackedFrames::recur(const Value& x, std::int64_t layer) {
  if (config_.decays()) return of(decaying(x.tensor, layer));
  std::vector<torch::Tensor> weights = recurrent_weights(layer);
  const bool both_ways = config_.bidirectional;
  const torch::Tensor start =
      torch::zeros({both_ways ? 2 : 1, batch_.size(), config_.hidden}, x.tensor.options());
  if (x.tensor.is_cuda()) return of(recurrent_on_cuda(x.tensor, weights, start));
  const auto lstm = [&](const torch::Tensor& frames, const torch::Tensor& zero) {
    return of(std::get<0>(torch::lstm(frames, batch_.batch_sizes_tensor(), {zero, zero}, weights,
                                      true, 1, 0.0, training_, both_ways)));
  };
  if (is_lstm() && kLstmByOneDnn && in_autocast_of(torch::kHalf)) {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);  // float32
    return lstm(x.tensor.to(torch::kFloat), start.to(torch::kFloat));
  }
  for (torch::Tensor& weight : weights) weight = cast_once(weight);
  if (is_lstm()) return lstm(x.tensor, start);
  return of(std::get<0>(torch::gru(x.tensor, batch_.batch_sizes_tensor(), start, weights, true, 1,
                                   0.0, training_, both_ways)));
}

// LibTorch's own entry looks for weights in cuDNN's order at the start of their storage, which is
// the optimizer's and holds other parameters there: it would copy them, with a warning, at every
// step (aten/src/ATen/native/cudnn/RNN.cpp, try_get_weight_buf). In autocast it would compute in
// float16 whatever the type asked for (aten/src/ATen/cudnn/AutocastRNN.cpp), in which gradients
// need a loss scale: recurrence stays in float32. Of packed sequences cuDNN computes step by step;
// of a grid it keeps the weights on the chip (the same file, get_algo).
torch::Tensor PackedFrames::recurrent_on_cuda(const torch::Tensor& x, at::TensorList weights,
                                              const torch::Tensor& start) const {
  const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
  const torch::Tensor first = start.to(torch::kFloat);
  torch::Tensor input = x.to(torch::kFloat);
  const bool both_ways = config_.bidirectional, grid = batch_.even();
  if (grid) input = input.view({-1, batch_.size(), input.size(1)});  // [T, B, I]
  const CudnnLayer layer{is_lstm(), both_ways, input.size(-1), config_.hidden};
  const auto each = static_cast<std::int64_t>(weights.size()) / (both_ways ? 2 : 1);
  const torch::Tensor states = std::get<0>(at::_cudnn_rnn(
      input, weights, each, weights_in_order(weights, layer), first,
      is_lstm() ? std::optional(first) : std::nullopt, layer.mode(), layer.hidden, 0, 1, false, 0.0,
      training_, both_ways, grid ? std::vector<std::int64_t>() : batch_.batch_sizes, std::nullopt));
  return grid ? states.flatten(0, 1) : states;
}

torch::Tensor PackedFrames::decay_factors(std::int64_t layer) const {
  const torch::Tensor interval =
      (time_.narrow(1, kLogInterval, 1) - tensor("time_mean").narrow(0, 0, 1)).exp() *
      time_.narrow(1, kIntervalKnown, 1);  // [N, 1]
  const std::string name = concat("decay_l", layer);
  const torch::Tensor rate = at::linear(interval, tensor(weight_of(name)), tensor(bias_of(name)));
  return (-torch::relu(rate)).exp();
}

torch::Tensor PackedFrames::decaying(const torch::Tensor& x, std::int64_t layer) {
  std::vector<torch::Tensor> w = recurrent_weights(layer);
  for (torch::Tensor& weight : w) weight = cast_once(weight);
  const torch::Tensor gamma = decay_factors(layer);  // [N, H]
  torch::Tensor state = torch::zeros({batch_.size(), config_.hidden}, x.options());
  std::vector<torch::Tensor> states;
  std::int64_t row = 0;
  for (const std::int64_t size : batch_.batch_sizes) {
    const torch::Tensor before = state.narrow(0, 0, size) * gamma.narrow(0, row, size);
    state = torch::gru_cell(x.narrow(0, row, size), before, w[0], w[1], w[2], w[3]);
    states.push_back(state);
    row += size;
  }
  return torch::cat(states);
}

// For each packed row, 1 + the row of the frame `back` frames earlier in its exam; 0: none.
torch::Tensor PackedFrames::rows_before(std::int64_t back) const {
  std::vector<std::int64_t> rows;
  for (std::size_t step = 0; step < batch_.batch_sizes.size(); ++step) {
    const bool begun = static_cast<std::int64_t>(step) >= back;
    for (std::int64_t exam = 0; exam < batch_.batch_sizes[step]; ++exam) {
      rows.push_back(begun ? first_[step - static_cast<std::size_t>(back)] + exam + 1 : 0);
    }
  }
  return int_tensor(rows, device_);
}

Value PackedFrames::convolved(const torch::Tensor& x, const std::string& name) const {
  const torch::Tensor& weight = tensor(weight_of(name));  // [W, in, taps]
  return of(at::linear(x, weight.transpose(1, 2).flatten(1), tensor(bias_of(name))));
}

Value PackedFrames::convolve(const Value& x, const std::string& name, std::int64_t,
                             std::int64_t taps, std::int64_t dilation) {
  if (taps == 1) return convolved(x.tensor, name);
  const torch::Tensor from_one = torch::cat({x.tensor.new_zeros({1, x.width}), x.tensor});
  std::vector<torch::Tensor> seen;
  for (std::int64_t back = (taps - 1) * dilation; back > 0; back -= dilation) {
    torch::Tensor& rows = rows_before_[back];
    if (!rows.defined()) rows = rows_before(back);
    seen.push_back(from_one.index_select(0, rows));
  }
  seen.push_back(x.tensor);
  return convolved(torch::cat(seen, 1), name);
}

// Positions, 0 for the first row of each packed exam: in seconds, in units of the geometric mean
// interval of the training part, or in frames if times are unknown or hidden. [N] float64
torch::Tensor PackedFrames::places() const {
  const double unit = config_.time ? tensor("time_mean")[0].item<double>() : 0;  // a logarithm
  std::vector<double> place(batch_.times.size());
  for (std::size_t step = 1; step < batch_.batch_sizes.size(); ++step) {
    const auto row = static_cast<std::size_t>(first_[step]);
    const auto before = static_cast<std::size_t>(first_[step - 1]);
    for (std::size_t i = 0; i < static_cast<std::size_t>(batch_.batch_sizes[step]); ++i) {
      const auto& frame = batch_.times[row + i];
      const bool known = config_.time && frame[kIntervalKnown] > 0;
      place[row + i] = place[before + i] + (known ? std::exp(frame[kLogInterval] - unit) : 1.0);
    }
  }
  return torch::tensor(place, torch::kFloat64);
}

const PackedFrames::Grid& PackedFrames::grid() {
  if (grid_) return *grid_;
  const std::int64_t exams = batch_.size(), steps = std::ssize(batch_.batch_sizes);
  std::vector<std::int64_t> grid(static_cast<std::size_t>(exams * steps)), rows;
  for (std::size_t step = 0; step < batch_.batch_sizes.size(); ++step) {
    for (std::int64_t exam = 0; exam < batch_.batch_sizes[step]; ++exam) {
      rows.push_back(exam * steps + static_cast<std::int64_t>(step));
      grid[static_cast<std::size_t>(rows.back())] = first_[step] + exam;
    }
  }
  grid_ = Grid{int_tensor(grid, device_), int_tensor(rows, device_), {}, {}, {}};
  if (rows.size() < grid.size()) {
    const torch::Tensor& lengths = batch_.tensors.lengths;
    grid_->mask = (torch::arange(steps, lengths.options()).unsqueeze(0) < lengths.unsqueeze(1))
                      .view({exams, 1, 1, steps});
  }
  const torch::Tensor angle =
      (places().unsqueeze(1) * rotary_speeds(config_.hidden)).unsqueeze(1).unsqueeze(1);
  grid_->cosine = to_device(angle.cos().to(torch::kFloat32), device_);
  grid_->sine = to_device(angle.sin().to(torch::kFloat32), device_);
  return *grid_;
}

Value PackedFrames::attend(const Value& x) {
  const Grid& at = grid();
  const std::int64_t hidden = x.width / 3, heads = attention_heads(hidden), width = hidden / heads;
  const torch::Tensor all = x.tensor.view({-1, 3, heads, width});
  const auto qkv =
      torch::cat({turned(all.narrow(1, 0, 2), at.cosine, at.sine), all.narrow(1, 2, 1)}, 1)
          .index_select(0, at.to_grid)
          .view({batch_.size(), std::ssize(batch_.batch_sizes), 3, heads, width})
          .permute({2, 0, 3, 1, 4})
          .unbind();  // of [3, B, h, T, d]
  const torch::Tensor attended = at::scaled_dot_product_attention(
      qkv[0], qkv[1], qkv[2],
      at.mask.defined() ? std::optional(at.mask) : std::nullopt);  // [B, h, T, d]
  return of(attended.transpose(1, 2).reshape({-1, hidden}).index_select(0, at.to_rows));
}

// The last state of a backward layer is that of the first frame.
torch::Tensor PackedFrames::last_of(const torch::Tensor& states) const {
  const torch::Tensor last = states.index_select(0, batch_.tensors.last_rows);
  const std::int64_t hidden = config_.hidden;
  if (states.size(1) == hidden) return last;
  return torch::cat(
      {last.narrow(1, 0, hidden), states.narrow(0, 0, batch_.size()).narrow(1, hidden, hidden)}, 1);
}

// After the end of a sequence there are zeros, or the values of the padding.
torch::Tensor PackedFrames::in_grid(const torch::Tensor& rows) const {
  if (batch_.even()) return rows.reshape({-1, batch_.size(), rows.size(1)}).transpose(0, 1);
  return std::get<0>(torch::nn::utils::rnn::pad_packed_sequence(
      PackedSequence(rows, batch_.batch_sizes_tensor()), /*batch_first=*/true));
}

Value PackedFrames::pool(const Value& x) {
  of_exams_ = true;
  const TemporalPool kind = pool_of(config_);
  if (kind == TemporalPool::kLast) return of(last_of(x.tensor));
  torch::Tensor frames = in_grid(x.tensor);                           // [B, T, W]
  const torch::Tensor lengths = batch_.tensors.lengths.unsqueeze(1);  // [B, 1]
  const torch::Tensor beyond =
      torch::arange(frames.size(1), lengths.options()).unsqueeze(0) >= lengths;  // [B, T]
  if (kind == TemporalPool::kMean) {
    if (batch_.padded)  // in the order of memory, or sums would round otherwise
      frames = frames.transpose(0, 1).masked_fill(beyond.t().unsqueeze(2), 0).transpose(0, 1);
    return of(frames.sum(1) / lengths.to(frames.scalar_type()));
  }
  const torch::Tensor scores = linear({x.width, frames}, "attention", 1).tensor;  // [B, T, 1]
  const torch::Tensor masked =
      scores.squeeze(2).masked_fill(beyond, -std::numeric_limits<float>::infinity());
  return of(masked.softmax(1).unsqueeze(1).bmm(frames).squeeze(1));
}

double TensorRow::size() const {
  double product = 1;
  for (const std::int64_t length : shape) product *= static_cast<double>(length);
  return product;
}

std::vector<TensorRow> tensors_of(const ModelConfig& config) {
  TensorList list(config);
  if (config.architecture->is_network()) outputs_of(list, config);
  return list.take();
}

std::vector<DrawnRow> draws_of(const ModelConfig& config) {
  TensorList list(config);
  if (config.architecture->is_network()) outputs_of(list, config);
  return list.take_draws();
}

std::vector<TensorRow> TensorList::take() {
  std::ranges::stable_sort(rows_, {}, &std::pair<std::size_t, TensorRow>::first);
  std::vector<TensorRow> rows;
  for (auto& [place, row] : rows_) rows.push_back(std::move(row));
  return rows;
}

void TensorList::add_row(TensorRow row) {
  std::size_t place = next_++;
  for (const auto& [prefix, known] : places_)
    if (row.name.starts_with(prefix)) place = known;
  rows_.emplace_back(place, std::move(row));
}

void TensorList::add_drawn(const std::string& name, std::vector<std::int64_t> shape,
                           std::int64_t fan_in) {
  const double bound = 1 / std::sqrt(static_cast<double>(fan_in));
  add_row({.name = name, .shape = std::move(shape), .bound = bound});
}

void TensorList::add_statistics(const std::string& name, std::int64_t width) {
  add_row({.name = name + "_mean", .shape = {width}, .is_buffer = true});
  add_row({.name = name + "_std", .shape = {width}, .is_buffer = true, .value = 1});
}

Value TensorList::features() {
  add_statistics("feature", config_.dimension);
  if (!config_.blank)
    draws_.push_back(
        {RandomPurpose::kInputNoise, config_.dimension - config_.clean_inputs(), false});
  return {config_.dimension};
}

TimeInputs TensorList::times() {
  add_statistics("time", config_.time_values());
  return {{config_.time_values()}, {config_.time_values()}, {1}};
}

Value TensorList::clock() {
  add_statistics("clock", config_.clock_width);
  draws_.push_back(
      {RandomPurpose::kInputNoise, config_.clock_width - config_.clean_inputs(), true});
  of_exams_ = !config_.per_frame();
  if (config_.per_frame()) times();
  return {config_.clock_width + (config_.per_frame() ? kClockFrameInputs : 0)};
}

Value TensorList::covariates() {
  of_exams_ = !config_.per_frame();
  return {config_.covariates};
}

Value TensorList::linear(const Value& x, const std::string& name, std::int64_t width) {
  add_drawn(weight_of(name), {width, x.width}, x.width);
  add_drawn(bias_of(name), {width}, x.width);
  return {width};
}

Value TensorList::norm(const Value& x, const std::string& name) {
  add_row({.name = weight_of(name), .shape = {x.width}, .value = 1});
  add_row({.name = bias_of(name), .shape = {x.width}});
  return x;
}

Value TensorList::join(const std::vector<Value>& parts) {
  Value joined;
  for (const Value& part : parts) joined.width += part.width;
  return joined;
}

Value TensorList::dropout(const Value& x, RandomPurpose purpose) {
  draws_.push_back({purpose, x.width, of_exams_});
  return x;
}

// As torch.nn.GRU and torch.nn.LSTM name and draw them: within ±1/√H.
Value TensorList::recur(const Value& x, std::int64_t layer) {
  const std::int64_t hidden = config_.hidden, gates = config_.architecture->gates * hidden;
  const std::string name = config_.architecture->name;
  if (config_.decays()) linear({1}, concat("decay_l", layer), hidden);
  for (const char* end : {"", "_reverse"}) {
    if (*end != '\0' && !config_.bidirectional) continue;
    const std::string of = concat("_l", layer, end);
    add_drawn(name + ".weight_ih" + of, {gates, x.width}, hidden);
    add_drawn(name + ".weight_hh" + of, {gates, hidden}, hidden);
    add_drawn(name + ".bias_ih" + of, {gates}, hidden);
    add_drawn(name + ".bias_hh" + of, {gates}, hidden);
  }
  return {pooled_width(config_)};
}

Value TensorList::convolve(const Value& x, const std::string& name, std::int64_t width,
                           std::int64_t taps, std::int64_t) {
  add_drawn(weight_of(name), {width, x.width, taps}, taps * x.width);
  add_drawn(bias_of(name), {width}, taps * x.width);
  return {width};
}

Value TensorList::pool(const Value& x) {
  of_exams_ = true;
  if (pool_of(config_) == TemporalPool::kAttention) linear(x, "attention", 1);
  return x;
}

}  // namespace coldframe::temporal
