// A reusable buffer of floats: a step no larger than earlier ones allocates nothing. LibTorch's
// allocator provides it, so that a memory budget counts it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/models/sequence_model.h"
#include "train_temporal/models/thread_team.h"

namespace coldframe::temporal {

class Buffer {
 public:
  // Room for n uninitialised floats.
  float* sized(std::int64_t n) {
    if (!tensor_.defined() || tensor_.numel() < n) tensor_ = torch::empty({n});
    return tensor_.data_ptr<float>();
  }
  float* zeroed(std::int64_t n) {
    float* values = sized(n);
    for (std::int64_t i = 0; i < n; ++i) values[i] = 0;
    return values;
  }
  float* data() const { return tensor_.data_ptr<float>(); }

 private:
  torch::Tensor tensor_;
};

// A GRU (Cho et al. 2014, in the form of torch.nn.GRU) with one or more layers and one or two
// directions: forward and backward pass on the CPU without autograd. Sequences are packed: all
// first steps, then all second steps, …, the longest sequence first, so that no padding is
// computed.
//
//   r = σ(W_ir x + b_ir + W_hr h + b_hr)        z = σ(W_iz x + b_iz + W_hz h + b_hz)
//   n = tanh(W_in x + b_in + r ∘ (W_hn h + b_hn))        h' = (1 − z) ∘ n + z ∘ h,  h = 0 at first
//
// A row's values do not depend on the other sequences: they are bit-identical in any batch.

struct GruShape {
  std::int64_t input, hidden;
  std::int64_t layers = 1;
  bool bidirectional = false;

  std::int64_t directions() const { return bidirectional ? 2 : 1; }
  std::int64_t width() const { return hidden * directions(); }
  std::int64_t layer_input(std::int64_t layer) const { return layer == 0 ? input : width(); }
};

// N rows in T steps; step t has sizes[t] sequences, non-increasing in t.
struct PackedSteps {
  std::span<const std::int64_t> sizes;
  std::int64_t rows;

  std::int64_t sequences() const { return sizes.empty() ? 0 : sizes.front(); }
};

// The weights of one layer in one direction. Lists of them are in torch.nn.GRU's order: layer by
// layer, forwards before backwards.
struct GruWeights {
  const float *input, *hidden;                      // weight_ih [3H, I], weight_hh [3H, H]; r, z, n
  const float *input_bias, *hidden_bias;            // [3H]
  const float *input_by_column, *hidden_by_column;  // the weights transposed: [I, 3H], [H, 3H]
};
struct GruGradients {
  float *input, *hidden, *input_bias, *hidden_bias;
};

// A forward pass through the layers, and what it stores for the backward pass. When reused, it
// allocates only if a batch is larger than all earlier ones.
class GruPass {
 public:
  explicit GruPass(const GruShape& shape);

  // x: [N, I], must stay valid until backward(). masks: [N, W] factors of layer l's output before
  // it enters layer l + 1; empty: no dropout between layers.
  void forward(std::span<const GruWeights> weights, const PackedSteps& steps, const float* x,
               std::span<const float* const> masks = {});
  const float* output() const;                                          // [N, W] of the last layer
  const float* last(std::int64_t layer, std::int64_t direction) const;  // [B, H]

  // output: [N, W] or null. last: for each layer and direction [B, H] or null. x: [N, I] receives
  // the gradient, or null. Adds to the gradients of `parameters`, or overwrites them if `fresh`.
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
  struct LayerDirection {
    std::int64_t layer, direction;
  };
  std::size_t index(LayerDirection at) const;
  const float* layer_input(std::int64_t layer, const float* x) const;
  void run(LayerDirection at, const GruWeights& weights, const PackedSteps& steps, const float* x);
  void run_back(LayerDirection at, const GruWeights& weights, const PackedSteps& steps,
                const float* d_output, const float* d_last);
  void add_parameters(LayerDirection at, const PackedSteps& steps, const float* x,
                      const GruGradients& gradients, bool fresh);

  GruShape shape_;
  std::vector<LayerPass> passes_;
  std::vector<Buffer> outputs_;           // by layer, [N, W]
  Buffer projected_, recurrent_;          // [N, 3H], [B, 3H]
  Buffer d_recurrent_, d_state_, zeros_;  // [N, 3H], [B, H], [H]
  Buffer d_outputs_[2];                   // [N, W], of a layer and of the one below
};

// The network of a GRU on the CPU without autograd: the same model, with an explicit backward pass
// and memory that every step reuses. Tests compare it with Network::forward. It is not an autograd
// function within the network because the slices of a batch run backward in parallel, each into a
// gradient of its own (fit/step.h), whereas autograd's engine runs all backward passes of a device
// in one thread and sums into one gradient.

// The parameters in the layout that the passes read. The model keeps ownership.
class FusedGru {
 public:
  // True for a network on the CPU with a GRU and the plain time encoding.
  static bool supports(const SequenceModel& model);
  FusedGru(const SequenceModel& model, const ModelConfig& config);

  // Call it whenever the parameters have changed.
  void prepare(ThreadTeam& team);

  // The gradients of all parameters in a buffer with the layout of their shared storage (see
  // AdamW).
  struct Gradients {
    float *project, *project_bias, *attention, *attention_bias, *head, *head_bias;
    float* covariate_head;  // null where there is none
    std::vector<GruGradients> gru;
  };
  Gradients gradients(float* base) const;

  const ModelConfig& config() const { return config_; }
  GruShape shape() const;
  // Number of output rows: exams, or frames.
  std::int64_t output_rows(const PackedBatch& batch) const {
    return config_.per_frame() ? static_cast<std::int64_t>(batch.frame_rows.size()) : batch.size();
  }

 private:
  friend class FusedPass;
  struct Transpose {
    std::int64_t rows, columns;
    const float* from;
    float* to;
    std::int64_t to_row;
  };
  const torch::Tensor& tensor(const std::string& name) const;
  const float* values(const std::string& name) const;
  const float* by_column(const std::string& name);

  ModelConfig config_;
  torch::OrderedDict<std::string, torch::Tensor> tensors_;  // parameters and buffers
  std::vector<Transpose> transposes_;
  std::vector<torch::Tensor> transposed_;
  torch::Tensor feature_scale_;  // [D] 1 / feature_std
  std::vector<GruWeights> gru_;
  const float *project_by_column_, *head_by_column_;
  torch::Tensor covariates_;  // SequenceModel::covariates in the layout of the projection
  const float* covariate_head_by_column_ = nullptr;
};

// Forward and backward pass of a slice of a batch.
class FusedPass {
 public:
  explicit FusedPass(const FusedGru& model);

  // Outputs [R, C] in the order of the batch, R = output_rows(); valid until the next call.
  const float* forward(const Dataset& dataset, const PackedBatch& batch, const Dropout& dropout);
  // Adds to `gradients`, or overwrites them if `fresh`. d_logits: [R, C]
  void backward(const PackedBatch& batch, const float* d_logits,
                const FusedGru::Gradients& gradients, bool fresh);

 private:
  PackedSteps steps(const PackedBatch& batch) const;
  void gather(const Dataset& dataset, const PackedBatch& batch, const Dropout& dropout);
  void gather_rows(const Dataset& dataset, std::span<const std::int64_t> rows, Buffer& to);
  void add_covariates(const PackedBatch& batch, std::int64_t rows, float* logits);
  void project(const PackedBatch& batch, const Dropout& dropout);
  void add_time(const PackedBatch& batch);
  void draw_layer_masks(const PackedBatch& batch, const Dropout& dropout);
  void pool(const PackedBatch& batch);
  void pool_attention(const PackedBatch& batch);
  void pool_back(const PackedBatch& batch, const FusedGru::Gradients& gradients, bool fresh);
  void pool_attention_back(const PackedBatch& batch, const FusedGru::Gradients& gradients,
                           bool fresh);

  const FusedGru& model_;
  GruShape shape_;
  bool dropped_ = false;
  GruPass gru_;
  Buffer features_, partners_;                 // [N, D]
  Buffer x_, pooled_, logits_;                 // [N, I], [R, W], [R, C]
  Buffer projection_mask_, head_mask_;         // [N, H], [R, W]
  Buffer d_pooled_, d_output_, d_last_, d_x_;  // [R, W], [N, W], [2, B, H], [N, I]
  Buffer attention_, d_attention_;             // [N]
  Buffer covariates_;                          // [R, K]
  std::vector<Buffer> layer_masks_;
  std::vector<const float*> layer_mask_values_, d_last_values_;
};

}  // namespace coldframe::temporal
