#include "train_temporal/models/fused_gru.h"

#include <algorithm>
#include <cmath>

#include "train_temporal/models/kernels/kernels.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

namespace {

// Calls body(first row, sequences) for every step, in the direction of time or against it.
template <typename Body>
void for_steps(const PackedSteps& steps, bool in_time, Body body) {
  if (in_time) {
    std::int64_t row = 0;
    for (std::int64_t size : steps.sizes) {
      body(row, size);
      row += size;
    }
    return;
  }
  std::int64_t row = steps.rows;
  for (std::size_t t = steps.sizes.size(); t-- > 0;) {
    row -= steps.sizes[t];
    body(row, steps.sizes[t]);
  }
}

}  // namespace

GruPass::GruPass(const GruShape& shape)
    : shape_(shape),
      passes_(static_cast<std::size_t>(shape.layers * shape.directions())),
      outputs_(static_cast<std::size_t>(shape.layers)) {}

std::size_t GruPass::index(LayerDirection at) const {
  return static_cast<std::size_t>(at.layer * shape_.directions() + at.direction);
}

const float* GruPass::output() const {
  return outputs_.back().data();
}

const float* GruPass::last(std::int64_t layer, std::int64_t direction) const {
  return passes_[index({layer, direction})].state.data();
}

const float* GruPass::layer_input(std::int64_t layer, const float* x) const {
  return layer == 0 ? x : outputs_[static_cast<std::size_t>(layer - 1)].data();
}

void GruPass::forward(std::span<const GruWeights> weights, const PackedSteps& steps, const float* x,
                      std::span<const float* const> masks) {
  for (std::int64_t layer = 0; layer < shape_.layers; ++layer) {
    float* output = outputs_[static_cast<std::size_t>(layer)].sized(steps.rows * shape_.width());
    for (std::int64_t direction = 0; direction < shape_.directions(); ++direction) {
      const LayerDirection at{layer, direction};
      run(at, weights[index(at)], steps, layer_input(layer, x));
    }
    if (masks.empty() || layer + 1 == shape_.layers) continue;
    kernels().scale(steps.rows * shape_.width(), masks[static_cast<std::size_t>(layer)], output);
  }
}

void GruPass::run(LayerDirection at, const GruWeights& weights, const PackedSteps& steps,
                  const float* x) {
  const SequenceKernels& k = kernels();
  const std::int64_t hidden = shape_.hidden, gates = 3 * hidden, width = shape_.width();
  const std::int64_t inputs = shape_.layer_input(at.layer);
  LayerPass& own = passes_[index(at)];
  float* saved = own.gates.sized(steps.rows * 4 * hidden);
  float* previous = own.previous.sized(steps.rows * hidden);
  float* state = own.state.zeroed(steps.sequences() * hidden);
  float* recurrent = recurrent_.sized(steps.sequences() * gates);
  float* projected = projected_.sized(steps.rows * gates);
  float* output = outputs_[static_cast<std::size_t>(at.layer)].data() + at.direction * hidden;
  k.multiply({steps.rows, gates, inputs, x, inputs, false, weights.input_by_column, gates,
              projected, gates, Start::kBias, weights.input_bias});
  bool first = true;
  for_steps(steps, at.direction == 0, [&](std::int64_t row, std::int64_t size) {
    if (!first) {
      k.multiply({size, gates, hidden, state, hidden, false, weights.hidden_by_column, gates,
                  recurrent, gates, Start::kBias, weights.hidden_bias});
    }
    k.gates({size, hidden, projected + row * gates, first ? weights.hidden_bias : recurrent,
             first ? 0 : gates, state, previous + row * hidden, saved + row * 4 * hidden,
             output + row * width, width});
    first = false;
  });
}

void GruPass::backward(std::span<const GruWeights> weights, const PackedSteps& steps,
                       const float* x, std::span<const float* const> masks,
                       const Gradient& gradient) {
  const SequenceKernels& k = kernels();
  const float* d_output = gradient.output;
  for (std::int64_t layer = shape_.layers; layer-- > 0;) {
    const std::int64_t inputs = shape_.layer_input(layer), gates = 3 * shape_.hidden;
    float* d_input = gradient.x;
    if (layer > 0) d_input = d_outputs_[layer % 2].sized(steps.rows * inputs);
    for (std::int64_t direction = 0; direction < shape_.directions(); ++direction) {
      const LayerDirection at{layer, direction};
      const std::size_t i = index(at);
      const float* d_last = gradient.last.empty() ? nullptr : gradient.last[i];
      run_back(at, weights[i], steps, d_output, d_last);
      add_parameters(at, steps, layer_input(layer, x), gradient.parameters[i], gradient.fresh);
      if (d_input == nullptr) continue;
      k.multiply({steps.rows, inputs, gates, projected_.data(), gates, false, weights[i].input,
                  inputs, d_input, inputs, direction == 0 ? Start::kZero : Start::kAccumulate});
    }
    if (layer > 0 && !masks.empty()) {
      k.scale(steps.rows * inputs, masks[static_cast<std::size_t>(layer - 1)], d_input);
    }
    d_output = d_input;
  }
}

// Leaves the gradients of W_ih x in projected_ and those of W_hh h in d_recurrent_.
void GruPass::run_back(LayerDirection at, const GruWeights& weights, const PackedSteps& steps,
                       const float* d_output, const float* d_last) {
  const SequenceKernels& k = kernels();
  const std::int64_t hidden = shape_.hidden, gates = 3 * hidden, width = shape_.width();
  const LayerPass& own = passes_[index(at)];
  const std::int64_t state_size = steps.sequences() * hidden;
  float* d_state = d_last == nullptr ? d_state_.zeroed(state_size) : d_state_.sized(state_size);
  if (d_last != nullptr) std::copy_n(d_last, state_size, d_state);
  const float* nothing = zeros_.zeroed(hidden);
  float* d_projected = projected_.sized(steps.rows * gates);
  float* d_recurrent = d_recurrent_.sized(steps.rows * gates);
  // The first step of the forward pass is the last of the backward pass: its state's gradient is
  // not needed.
  const std::int64_t first_row = at.direction == 0 ? 0 : steps.rows - steps.sizes.back();
  for_steps(steps, at.direction != 0, [&](std::int64_t row, std::int64_t size) {
    const float* d_out =
        d_output == nullptr ? nothing : d_output + row * width + at.direction * hidden;
    k.gate_gradients({size, hidden, own.gates.data() + row * 4 * hidden,
                      own.previous.data() + row * hidden, d_out, d_output == nullptr ? 0 : width,
                      d_state, d_projected + row * gates, d_recurrent + row * gates});
    if (row == first_row) return;
    k.multiply({size, hidden, gates, d_recurrent + row * gates, gates, false, weights.hidden,
                hidden, d_state, hidden, Start::kAccumulate});
  });
}

void GruPass::add_parameters(LayerDirection at, const PackedSteps& steps, const float* x,
                             const GruGradients& gradients, bool fresh) {
  const SequenceKernels& k = kernels();
  const std::int64_t hidden = shape_.hidden, gates = 3 * hidden;
  const std::int64_t inputs = shape_.layer_input(at.layer);
  const float* d_projected = projected_.data();
  const float* d_recurrent = d_recurrent_.data();
  const float* previous = passes_[index(at)].previous.data();
  const Start start = fresh ? Start::kZero : Start::kAccumulate;
  k.multiply({gates, inputs, steps.rows, d_projected, gates, true, x, inputs, gradients.input,
              inputs, start});
  // Forwards all first steps come first, and the state before them is 0.
  const std::int64_t skip = at.direction == 0 ? steps.sequences() : 0;
  k.multiply({gates, hidden, steps.rows - skip, d_recurrent + skip * gates, gates, true,
              previous + skip * hidden, hidden, gradients.hidden, hidden, start});
  if (fresh) {
    std::fill_n(gradients.input_bias, gates, 0.0f);
    std::fill_n(gradients.hidden_bias, gates, 0.0f);
  }
  k.add_rows(steps.rows, gates, d_projected, gates, gradients.input_bias);
  k.add_rows(steps.rows, gates, d_recurrent, gates, gradients.hidden_bias);
}

namespace {

constexpr std::int64_t kTransposeRows = 64;  // a turn of prepare()

}  // namespace

bool FusedGru::supports(const SequenceModel& model) {
  const auto* network = dynamic_cast<const Network*>(&model);
  return network != nullptr && network->config().has_kernels() &&
         model.parameters().front().device().is_cpu();
}

FusedGru::FusedGru(const SequenceModel& model, const ModelConfig& config) : config_(config) {
  for (const auto& item : model.named_parameters()) tensors_.insert(item.key(), item.value());
  for (const auto& item : model.named_buffers()) tensors_.insert(item.key(), item.value());
  feature_scale_ = torch::empty_like(tensor("feature_std"));
  project_by_column_ = by_column("project.weight");
  head_by_column_ = by_column("head.weight");
  covariates_ = model.covariates;
  if (config.frame_covariates) {  // whose mean is 0
    covariates_ =
        covariates_ / tensor("feature_std").narrow(0, config.features(), config.covariates);
  }
  if (!model.covariate_head.is_empty())
    covariate_head_by_column_ = by_column("covariate_head.weight");
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    for (const char* end : {"", "_reverse"}) {
      if (*end != '\0' && !config.bidirectional) continue;
      const std::string of = "_l" + std::to_string(layer) + end;
      gru_.push_back({values("gru.weight_ih" + of), values("gru.weight_hh" + of),
                      values("gru.bias_ih" + of), values("gru.bias_hh" + of),
                      by_column("gru.weight_ih" + of), by_column("gru.weight_hh" + of)});
    }
  }
}

const torch::Tensor& FusedGru::tensor(const std::string& name) const {
  return tensors_[name];
}

const float* FusedGru::values(const std::string& name) const {
  return tensor(name).const_data_ptr<float>();
}

const float* FusedGru::by_column(const std::string& name) {
  const torch::Tensor& from = tensor(name);
  const std::int64_t rows = from.size(0), columns = from.size(1);
  transposed_.push_back(torch::empty({columns, rows}));
  float* to = transposed_.back().data_ptr<float>();
  for (std::int64_t row = 0; row < rows; row += kTransposeRows) {
    transposes_.push_back({std::min(kTransposeRows, rows - row), columns,
                           values(name) + row * columns, to + row, rows});
  }
  return to;
}

void FusedGru::prepare(ThreadTeam& team) {
  const float* deviation = values("feature_std");
  float* scale = feature_scale_.data_ptr<float>();
  for (std::int64_t i = 0; i < config_.dimension; ++i) scale[i] = 1 / deviation[i];
  team.run(transposes_.size(), [&](std::size_t i) {
    const Transpose& t = transposes_[i];
    kernels().transpose(t.rows, t.columns, t.from, t.to, t.to_row);
  });
}

GruShape FusedGru::shape() const {
  const std::int64_t inputs = config_.hidden + (config_.time ? config_.time_inputs() : 0);
  return {inputs, config_.hidden, config_.layers, config_.bidirectional};
}

FusedGru::Gradients FusedGru::gradients(float* base) const {
  const auto of = [&](const std::string& name) { return base + tensor(name).storage_offset(); };
  Gradients result{of("project.weight"), of("project.bias"), nullptr, nullptr,
                   of("head.weight"),    of("head.bias"),    nullptr, {}};
  if (covariate_head_by_column_ != nullptr) result.covariate_head = of("covariate_head.weight");
  if (config_.pool == TemporalPool::kAttention) {
    result.attention = of("attention.weight");
    result.attention_bias = of("attention.bias");
  }
  for (const GruWeights& weights : gru_) {
    const float* start = gru_.front().input;
    const float* origin = start - tensor("gru.weight_ih_l0").storage_offset();
    const auto at = [&](const float* parameter) { return base + (parameter - origin); };
    result.gru.push_back(
        {at(weights.input), at(weights.hidden), at(weights.input_bias), at(weights.hidden_bias)});
  }
  return result;
}

namespace {

// Calls body(row, sequence) for the packed rows in their order.
template <typename Body>
void for_rows(const PackedBatch& batch, Body body) {
  std::int64_t row = 0;
  for (std::int64_t reaching : batch.batch_sizes) {
    for (std::int64_t sequence = 0; sequence < reaching; ++sequence) body(row++, sequence);
  }
}

float share(const PackedBatch& batch, std::int64_t sequence) {
  return 1.0f / static_cast<float>(batch.lengths[static_cast<std::size_t>(sequence)]);
}

// A feature that one of two mixed frames lacks counts as the mean, which is 0; one that both lack
// stays NaN.
float mixed(float own, float partner, float share) {
  if (std::isnan(own) != std::isnan(partner)) (std::isnan(own) ? own : partner) = 0;
  return share * own + (1 - share) * partner;
}

}  // namespace

FusedPass::FusedPass(const FusedGru& model) : model_(model), shape_(model.shape()), gru_(shape_) {
  layer_masks_.resize(static_cast<std::size_t>(shape_.layers - 1));
  d_last_values_.resize(static_cast<std::size_t>(shape_.layers * shape_.directions()));
}

PackedSteps FusedPass::steps(const PackedBatch& batch) const {
  return {batch.batch_sizes, static_cast<std::int64_t>(batch.frame_rows.size())};
}

const float* FusedPass::forward(const Dataset& dataset, const PackedBatch& batch,
                                const Dropout& dropout) {
  const SequenceKernels& k = kernels();
  const std::int64_t size = model_.output_rows(batch), width = shape_.width();
  const std::int64_t classes = model_.config_.outputs;
  dropped_ = dropout.active();
  gather(dataset, batch, dropout);
  project(batch, dropout);
  if (model_.config_.time) add_time(batch);
  draw_layer_masks(batch, dropout);
  gru_.forward(model_.gru_, steps(batch), x_.data(), layer_mask_values_);
  pool(batch);
  if (dropped_) {
    float* mask = head_mask_.sized(size * width);
    const bool per_frame = model_.config_.per_frame();
    dropout.fill(RandomPurpose::kHeadDropout, per_frame ? batch.row_keys : batch.exam_keys, width,
                 mask);
    k.scale(size * width, mask, pooled_.data());
  }
  float* logits = logits_.sized(size * classes);
  k.multiply({size, classes, width, pooled_.data(), width, false, model_.head_by_column_, classes,
              logits, classes, Start::kBias, model_.values("head.bias")});
  if (model_.covariate_head_by_column_ != nullptr) add_covariates(batch, size, logits);
  return logits;
}

// Adds the late-fusion term, as SequenceModel::outputs() does.
void FusedPass::add_covariates(const PackedBatch& batch, std::int64_t rows, float* logits) {
  const std::int64_t width = model_.config_.covariates, classes = model_.config_.outputs;
  float* covariates = covariates_.sized(rows * width);
  copy_covariates(model_.covariates_, batch, model_.config_.per_frame(), covariates, width);
  kernels().multiply({rows, classes, width, covariates, width, false,
                      model_.covariate_head_by_column_, classes, logits, classes,
                      Start::kAccumulate});
}

void FusedPass::gather(const Dataset& dataset, const PackedBatch& batch, const Dropout& dropout) {
  const std::int64_t dimension = model_.config_.dimension, features = model_.config_.features();
  gather_rows(dataset, batch.frame_rows, features_);
  if (batch.mixed()) {
    gather_rows(dataset, batch.partner_rows, partners_);
    for_rows(batch, [&](std::int64_t row, std::int64_t exam) {
      float* own = features_.data() + row * dimension;
      const float* partner = partners_.data() + row * dimension;
      const auto share = static_cast<float>(batch.shares[static_cast<std::size_t>(exam)]);
      for (std::int64_t i = 0; i < features; ++i) own[i] = mixed(own[i], partner[i], share);
    });
  }
  if (model_.config_.frame_covariates)
    copy_covariates(model_.covariates_, batch, true, features_.data() + features, dimension);
  if (!model_.config_.blank) dropout.add_noise(batch.row_keys, dimension, features_.data());
  if (model_.config_.streams.empty()) return;
  const std::span<float> all(features_.data(),
                             batch.row_keys.size() * static_cast<std::size_t>(dimension));
  for (float& x : all) x = std::isnan(x) ? 0.0f : x;  // as PackedFrames::features() does
}

void FusedPass::gather_rows(const Dataset& dataset, std::span<const std::int64_t> rows,
                            Buffer& to) {
  const std::int64_t dimension = model_.config_.dimension, features = model_.config_.features();
  // Covariates follow the features of each row.
  const Gather request{rows,
                       features,
                       model_.values("feature_mean"),
                       model_.feature_scale_.const_data_ptr<float>(),
                       to.sized(static_cast<std::int64_t>(rows.size()) * dimension),
                       dimension};
  if (dataset.features.scalar_type() == torch::kFloat16) {
    const auto* table = static_cast<const std::uint16_t*>(dataset.features.const_data_ptr());
    kernels().gather_half(request, table);
  } else {
    kernels().gather_float(request, dataset.features.const_data_ptr<float>());
  }
}

void FusedPass::project(const PackedBatch& batch, const Dropout& dropout) {
  const SequenceKernels& k = kernels();
  const std::int64_t rows = steps(batch).rows, hidden = shape_.hidden;
  const std::int64_t dimension = model_.config_.dimension;
  float* x = x_.sized(rows * shape_.input);
  k.multiply({rows, hidden, dimension, features_.data(), dimension, false,
              model_.project_by_column_, hidden, x, shape_.input, Start::kBias,
              model_.values("project.bias")});
  if (!dropped_) return;
  float* mask = projection_mask_.sized(rows * hidden);
  dropout.fill(RandomPurpose::kProjectionDropout, batch.row_keys, hidden, mask);
  for (std::int64_t row = 0; row < rows; ++row) {
    k.scale(hidden, mask + row * hidden, x + row * shape_.input);
  }
}

// Appends the standardised times to each frame's projected features, as
// outputs_of() does.
void FusedPass::add_time(const PackedBatch& batch) {
  const float* mean = model_.values("time_mean");
  const float* deviation = model_.values("time_std");
  float* to = x_.data() + shape_.hidden;
  const auto values = static_cast<std::size_t>(model_.config_.time_values());
  for (const auto& time : batch.times) {
    for (std::size_t i = 0; i < values; ++i) {
      to[i] = (time[kLogInterval + i] - mean[i]) / deviation[i] * time[kIntervalKnown + i];
    }
    to[values] = 1 - time[kTimeKnown];
    to += shape_.input;
  }
}

void FusedPass::draw_layer_masks(const PackedBatch& batch, const Dropout& dropout) {
  layer_mask_values_.clear();
  if (!dropped_) return;
  const std::int64_t width = shape_.width();
  for (std::size_t layer = 0; layer < layer_masks_.size(); ++layer) {
    float* mask = layer_masks_[layer].sized(steps(batch).rows * width);
    dropout.fill(layer_dropout(static_cast<std::int64_t>(layer)), batch.row_keys, width, mask);
    layer_mask_values_.push_back(mask);
  }
}

void FusedPass::pool(const PackedBatch& batch) {
  const std::int64_t width = shape_.width(), hidden = shape_.hidden;
  float* pooled = pooled_.zeroed(model_.output_rows(batch) * width);
  switch (model_.config_.pool) {
    case TemporalPool::kLast:
      for (std::int64_t direction = 0; direction < shape_.directions(); ++direction) {
        const float* last = gru_.last(shape_.layers - 1, direction);
        for (std::int64_t exam = 0; exam < batch.size(); ++exam) {
          std::copy_n(last + exam * hidden, hidden, pooled + exam * width + direction * hidden);
        }
      }
      break;
    case TemporalPool::kMean:
      for_rows(batch, [&](std::int64_t row, std::int64_t exam) {
        kernels().add_scaled(width, share(batch, exam), gru_.output() + row * width,
                             pooled + exam * width);
      });
      break;
    case TemporalPool::kAttention:
      pool_attention(batch);
      break;
    case TemporalPool::kNone:
      std::copy_n(gru_.output(), steps(batch).rows * width, pooled);
      break;
  }
}

void FusedPass::pool_attention(const PackedBatch& batch) {
  const SequenceKernels& k = kernels();
  const std::int64_t width = shape_.width();
  const float* weight = model_.values("attention.weight");
  const float bias = *model_.values("attention.bias");
  float* attention = attention_.sized(steps(batch).rows);
  std::vector<float> highest(batch.exams.size(), -INFINITY), total(batch.exams.size(), 0.0f);
  for_rows(batch, [&](std::int64_t row, std::int64_t exam) {
    attention[row] = k.dot(width, weight, gru_.output() + row * width) + bias;
    float& high = highest[static_cast<std::size_t>(exam)];
    high = std::max(high, attention[row]);
  });
  for_rows(batch, [&](std::int64_t row, std::int64_t exam) {
    attention[row] = std::exp(attention[row] - highest[static_cast<std::size_t>(exam)]);
    total[static_cast<std::size_t>(exam)] += attention[row];
  });
  for_rows(batch, [&](std::int64_t row, std::int64_t exam) {
    attention[row] /= total[static_cast<std::size_t>(exam)];
    k.add_scaled(width, attention[row], gru_.output() + row * width, pooled_.data() + exam * width);
  });
}

void FusedPass::backward(const PackedBatch& batch, const float* d_logits,
                         const FusedGru::Gradients& gradients, bool fresh) {
  const SequenceKernels& k = kernels();
  const std::int64_t size = model_.output_rows(batch), width = shape_.width();
  const std::int64_t hidden = shape_.hidden;
  const std::int64_t classes = model_.config_.outputs, dimension = model_.config_.dimension;
  const std::int64_t rows = steps(batch).rows, inputs = shape_.input;
  const Start start = fresh ? Start::kZero : Start::kAccumulate;
  if (fresh) {
    std::fill_n(gradients.head_bias, classes, 0.0f);
    std::fill_n(gradients.project_bias, hidden, 0.0f);
  }
  k.multiply({classes, width, size, d_logits, classes, true, pooled_.data(), width, gradients.head,
              width, start});
  k.add_rows(size, classes, d_logits, classes, gradients.head_bias);
  if (gradients.covariate_head != nullptr) {
    const std::int64_t covariates = model_.config_.covariates;
    k.multiply({classes, covariates, size, d_logits, classes, true, covariates_.data(), covariates,
                gradients.covariate_head, covariates, start});
  }
  float* d_pooled = d_pooled_.sized(size * width);
  k.multiply({size, width, classes, d_logits, classes, false, model_.values("head.weight"), width,
              d_pooled, width, Start::kZero});
  if (dropped_) k.scale(size * width, head_mask_.data(), d_pooled);
  pool_back(batch, gradients, fresh);
  const bool last = model_.config_.pool == TemporalPool::kLast;
  float* d_x = d_x_.sized(rows * inputs);
  gru_.backward(model_.gru_, steps(batch), x_.data(), layer_mask_values_,
                {last ? nullptr : d_output_.data(), d_last_values_, d_x, gradients.gru, fresh});
  for (std::int64_t row = 0; dropped_ && row < rows; ++row) {
    k.scale(hidden, projection_mask_.data() + row * hidden, d_x + row * inputs);
  }
  k.multiply({hidden, dimension, rows, d_x, inputs, true, features_.data(), dimension,
              gradients.project, dimension, start});
  k.add_rows(rows, hidden, d_x, inputs, gradients.project_bias);
}

void FusedPass::pool_back(const PackedBatch& batch, const FusedGru::Gradients& gradients,
                          bool fresh) {
  const std::int64_t width = shape_.width(), hidden = shape_.hidden, size = batch.size();
  const float* d_pooled = d_pooled_.data();
  if (model_.config_.pool == TemporalPool::kLast) {
    float* d_last = d_last_.sized(size * width);
    for (std::int64_t direction = 0; direction < shape_.directions(); ++direction) {
      const auto run = d_last_values_.end() - shape_.directions() + direction;
      *run = d_last + direction * size * hidden;
      for (std::int64_t exam = 0; exam < size; ++exam) {
        std::copy_n(d_pooled + exam * width + direction * hidden, hidden,
                    d_last + (direction * size + exam) * hidden);
      }
    }
    return;
  }
  float* d_output = d_output_.zeroed(steps(batch).rows * width);
  if (model_.config_.per_frame()) {
    std::copy_n(d_pooled, steps(batch).rows * width, d_output);
    return;
  }
  if (model_.config_.pool == TemporalPool::kAttention) {
    pool_attention_back(batch, gradients, fresh);
    return;
  }
  for_rows(batch, [&](std::int64_t row, std::int64_t exam) {
    kernels().add_scaled(width, share(batch, exam), d_pooled + exam * width,
                         d_output + row * width);
  });
}

// a = softmax(s), s = w · h + b, hence ds = a ∘ (da − a · da), da = d_pooled · h.
void FusedPass::pool_attention_back(const PackedBatch& batch, const FusedGru::Gradients& gradients,
                                    bool fresh) {
  const SequenceKernels& k = kernels();
  const std::int64_t width = shape_.width();
  const float* weight = model_.values("attention.weight");
  const float* attention = attention_.data();
  float* d_attention = d_attention_.sized(steps(batch).rows);
  if (fresh) {
    std::fill_n(gradients.attention, width, 0.0f);
    *gradients.attention_bias = 0;
  }
  std::vector<float> common(batch.exams.size(), 0.0f);
  for_rows(batch, [&](std::int64_t row, std::int64_t exam) {
    d_attention[row] = k.dot(width, d_pooled_.data() + exam * width, gru_.output() + row * width);
    common[static_cast<std::size_t>(exam)] += attention[row] * d_attention[row];
  });
  for_rows(batch, [&](std::int64_t row, std::int64_t exam) {
    float* d_output = d_output_.data() + row * width;
    const float d_score =
        attention[row] * (d_attention[row] - common[static_cast<std::size_t>(exam)]);
    k.add_scaled(width, attention[row], d_pooled_.data() + exam * width, d_output);
    k.add_scaled(width, d_score, weight, d_output);
    k.add_scaled(width, d_score, gru_.output() + row * width, gradients.attention);
    *gradients.attention_bias += d_score;
  });
}

}  // namespace coldframe::temporal
