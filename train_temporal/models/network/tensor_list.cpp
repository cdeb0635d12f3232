#include "train_temporal/models/network/tensor_list.h"

#include <algorithm>
#include <cmath>

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
