#include "train_temporal/models/gru_layer.h"

#include <algorithm>

#include "train_temporal/models/kernels/kernels.h"

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

std::size_t GruPass::index(Place at) const {
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
      const Place at{layer, direction};
      run(at, weights[index(at)], steps, layer_input(layer, x));
    }
    if (masks.empty() || layer + 1 == shape_.layers) continue;
    kernels().scale(steps.rows * shape_.width(), masks[static_cast<std::size_t>(layer)], output);
  }
}

void GruPass::run(Place at, const GruWeights& weights, const PackedSteps& steps, const float* x) {
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
      const Place at{layer, direction};
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
void GruPass::run_back(Place at, const GruWeights& weights, const PackedSteps& steps,
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
  // The first step on the way there is the last on the way back: nothing wants its state's
  // gradient.
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

void GruPass::add_parameters(Place at, const PackedSteps& steps, const float* x,
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

}  // namespace coldframe::temporal
