#include "train_temporal/models/network/next_frame.h"

#include <cmath>
#include <stdexcept>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

[[noreturn]] void refuse_frames() {
  throw std::logic_error("this model does not go frame by frame");
}

}  // namespace

Value NextFrame::clock() {
  refuse_frames();
}
Value NextFrame::covariates() {
  refuse_frames();
}
Value NextFrame::attend(const Value&) {
  refuse_frames();
}

torch::Tensor& NextFrame::kept(const std::string& name, std::int64_t rows, std::int64_t width) {
  torch::Tensor& tensor = state_.layers[name];
  if (!tensor.defined()) tensor = features_.new_zeros({rows, width});
  return tensor;
}

Value NextFrame::recur(const Value& x, std::int64_t layer) {
  const std::vector<torch::Tensor> w = recurrent_weights(layer);
  torch::Tensor& hidden = kept(concat("hidden_l", layer), 1, config_.hidden);
  if (is_lstm()) {
    torch::Tensor& cell = kept(concat("cell_l", layer), 1, config_.hidden);
    std::tie(hidden, cell) = torch::lstm_cell(x.tensor, {hidden, cell}, w[0], w[1], w[2], w[3]);
  } else {
    if (config_.decays()) hidden = hidden * decay_factors(layer);
    hidden = torch::gru_cell(x.tensor, hidden, w[0], w[1], w[2], w[3]);
  }
  return of(hidden);
}

Value NextFrame::convolve(const Value& x, const std::string& name, std::int64_t, std::int64_t taps,
                          std::int64_t dilation) {
  if (taps == 1) return convolved(x.tensor, name);
  torch::Tensor& before = kept(name, (taps - 1) * dilation, x.width);
  const torch::Tensor frames = torch::cat({before, x.tensor});  // [reach + 1, in]
  before = frames.narrow(0, 1, before.size(0));
  return convolved(frames.slice(0, 0, std::nullopt, dilation).reshape({1, -1}), name);
}

Value NextFrame::pool(const Value& x) {
  const bool one_frame = is_one_frame(config_.order);
  const bool keeps_first = config_.order == FrameOrder::kFirst && state_.frames > 1;
  const TemporalPool kind = one_frame ? TemporalPool::kLast : pool_of(config_);
  const torch::Tensor exact = x.tensor.to(torch::kFloat64);
  const auto pooled = [&]() -> torch::Tensor {
    if (keeps_first) return state_.sum;
    if (kind == TemporalPool::kLast) return state_.sum = exact;
    if (!state_.sum.defined()) state_.sum = torch::zeros_like(exact);
    if (kind == TemporalPool::kMean) {
      state_.sum = state_.sum + exact;
      return state_.sum / static_cast<double>(state_.frames);
    }
    const double score = linear(x, "attention", 1).tensor.item<double>();
    const double highest = std::max(state_.highest, score);
    const double before = std::exp(state_.highest - highest), weight = std::exp(score - highest);
    state_.highest = highest;
    state_.weights = before * state_.weights + weight;
    state_.sum = before * state_.sum + weight * exact;
    return state_.sum / state_.weights;
  };
  return of(pooled().to(torch::kFloat32));
}

}  // namespace coldframe::temporal
