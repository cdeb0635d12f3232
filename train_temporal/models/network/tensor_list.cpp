#include "train_temporal/models/network/tensor_list.h"

#include <algorithm>

#include "common/text/text.h"

namespace coldframe::temporal {

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

std::vector<TensorRow> TensorList::take() {
  std::ranges::stable_sort(rows_, {}, &std::pair<std::size_t, TensorRow>::first);
  std::vector<TensorRow> rows;
  for (auto& [place, row] : rows_) rows.push_back(std::move(row));
  return rows;
}

void TensorList::add_row(const std::string& name, std::vector<std::int64_t> shape, bool is_buffer) {
  std::size_t place = next_++;
  for (const auto& [prefix, known] : places_)
    if (name.starts_with(prefix)) place = known;
  rows_.push_back({place, {name, std::move(shape), is_buffer}});
}

Value TensorList::features() {
  for (const char* name : {"feature_mean", "feature_std"}) add_row(name, {config_.dimension}, true);
  return {config_.dimension};
}

TimeInputs TensorList::times() {
  for (const char* name : {"time_mean", "time_std"}) add_row(name, {config_.time_values()}, true);
  return {{config_.time_values()}, {config_.time_values()}, {1}};
}

Value TensorList::clock() {
  for (const char* name : {"clock_mean", "clock_std"}) add_row(name, {config_.clock_width}, true);
  if (config_.per_frame()) times();
  return {config_.clock_width + (config_.per_frame() ? kClockFrameInputs : 0)};
}

Value TensorList::linear(const Value& x, const std::string& name, std::int64_t width) {
  add_row(weight_of(name), {width, x.width});
  add_row(bias_of(name), {width});
  return {width};
}

Value TensorList::norm(const Value& x, const std::string& name) {
  add_row(weight_of(name), {x.width});
  add_row(bias_of(name), {x.width});
  return x;
}

Value TensorList::join(const std::vector<Value>& parts) {
  Value joined;
  for (const Value& part : parts) joined.width += part.width;
  return joined;
}

// As torch.nn.GRU and torch.nn.LSTM name them.
Value TensorList::recur(const Value& x, std::int64_t layer) {
  const std::int64_t hidden = config_.hidden, gates = config_.architecture->gates * hidden;
  const std::string name = config_.architecture->name;
  if (config_.decays()) linear({1}, concat("decay_l", layer), hidden);
  for (const char* end : {"", "_reverse"}) {
    if (*end != '\0' && !config_.bidirectional) continue;
    const std::string of = concat("_l", layer, end);
    add_row(name + ".weight_ih" + of, {gates, x.width});
    add_row(name + ".weight_hh" + of, {gates, hidden});
    add_row(name + ".bias_ih" + of, {gates});
    add_row(name + ".bias_hh" + of, {gates});
  }
  return {pooled_width(config_)};
}

Value TensorList::convolve(const Value& x, const std::string& name, std::int64_t width,
                           std::int64_t taps, std::int64_t) {
  add_row(weight_of(name), {width, x.width, taps});
  add_row(bias_of(name), {width});
  return {width};
}

Value TensorList::pool(const Value& x) {
  if (pool_of(config_) == TemporalPool::kAttention) linear(x, "attention", 1);
  return x;
}

}  // namespace coldframe::temporal
