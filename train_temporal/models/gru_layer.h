// A GRU (Cho et al. 2014, in the form of torch.nn.GRU) of one or more layers, in one or both
// directions, forwards and backwards on the CPU without autograd. Sequences are packed: all first
// steps, then all second steps, …, the longest sequence first, so that no padding is computed.
//
//   r = σ(W_ir x + b_ir + W_hr h + b_hr)        z = σ(W_iz x + b_iz + W_hz h + b_hz)
//   n = tanh(W_in x + b_in + r ∘ (W_hn h + b_hn))        h' = (1 − z) ∘ n + z ∘ h,  h = 0 at first
//
// A row's values do not depend on the other sequences: they are the same bits in any batch.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "train_temporal/models/kernels/buffer.h"

namespace coldframe::temporal {

struct GruShape {
  std::int64_t input, hidden;
  std::int64_t layers = 1;
  bool bidirectional = false;

  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  std::int64_t width() const { return hidden * directions(); }
  std::int64_t layer_input(std::int64_t layer) const { return layer == 0 ? input : width(); }
};

// N rows in T steps; step t has sizes[t] sequences, never more than the step before.
struct PackedSteps {
  std::span<const std::int64_t> sizes;
  std::int64_t rows;

  std::int64_t sequences() const { return sizes.empty() ? 0 : sizes.front(); }
};

// One layer in one direction. Elsewhere they are in torch.nn.GRU's order: layer by layer, forwards
// before backwards.
struct GruWeights {
  const float *input, *hidden;                      // weight_ih [3H, I], weight_hh [3H, H]; r, z, n
  const float *input_bias, *hidden_bias;            // [3H]
  const float *input_by_column, *hidden_by_column;  // the weights transposed: [I, 3H], [H, 3H]
};
struct GruGradients {
  float *input, *hidden, *input_bias, *hidden_bias;
};

// One pass through the layers, and what it has to remember for the way back. Used again and again,
// it allocates only when a batch is larger than all before.
class GruPass {
 public:
  explicit GruPass(const GruShape& shape);

  // x: [N, I], which must stay until backward(). masks: what layer l's output is multiplied with,
  // [N, W], before layer l + 1 sees it; empty: no dropout between layers.
  void forward(std::span<const GruWeights> weights, const PackedSteps& steps, const float* x,
               std::span<const float* const> masks = {});
  const float* output() const;                                          // [N, W] of the last layer
  const float* last(std::int64_t layer, std::int64_t direction) const;  // [B, H]

  // d_output: [N, W] or null. d_last: for each layer and direction [B, H] or null. d_x: [N, I]
  // receives the gradient, or null. Parameters' gradients are added to, or written when `fresh`.
  struct Gradient {
    const float* output;
    std::span<const float* const> last;
    float* x;
    std::span<const GruGradients> parameters;
    bool fresh = true;
  };
  void backward(std::span<const GruWeights> weights, const PackedSteps& steps, const float* x,
                std::span<const float* const> masks, const Gradient& gradient);

 private:
  struct LayerPass {  // one layer in one direction
    Buffer gates, previous, state;
  };
  struct Place {
    std::int64_t layer, direction;
  };
  std::size_t index(Place at) const;
  const float* layer_input(std::int64_t layer, const float* x) const;
  void run(Place at, const GruWeights& weights, const PackedSteps& steps, const float* x);
  void run_back(Place at, const GruWeights& weights, const PackedSteps& steps,
                const float* d_output, const float* d_last);
  void add_parameters(Place at, const PackedSteps& steps, const float* x,
                      const GruGradients& gradients, bool fresh);

  GruShape shape_;
  std::vector<LayerPass> passes_;
  std::vector<Buffer> outputs_;           // by layer, [N, W]
  Buffer projected_, recurrent_;          // [N, 3H], [B, 3H]
  Buffer d_recurrent_, d_state_, zeros_;  // [N, 3H], [B, H], [H]
  Buffer d_outputs_[2];                   // [N, W], of a layer and of the one below
};

}  // namespace coldframe::temporal
