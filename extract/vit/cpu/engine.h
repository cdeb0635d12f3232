// A norm's parameters, as the kernels take them.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "common/torch/precision.h"
#include "common/torch/tensor.h"
#include "extract/vit/backbone.h"
#include "extract/vit/cpu/kernels/kernels.h"
#include "extract/vit/vit.h"
#include "extract/vit/weights.h"

namespace coldframe::vit::cpu {

struct NormWeights {
  // Undefined weight: no norm. Undefined bias: RMSNorm.
  NormWeights(const torch::Tensor& with_weight, const torch::Tensor& with_bias, double with_epsilon)
      : epsilon(static_cast<float>(with_epsilon)), centred(with_bias.defined()) {
    if (!with_weight.defined()) return;
    weight = with_weight.detach().to(torch::kCPU, torch::kFloat32).contiguous();
    bias = centred ? with_bias.detach().to(torch::kCPU, torch::kFloat32).contiguous()
                   : torch::zeros_like(weight);
  }
  // The layer may be empty.
  explicit NormWeights(const Norm& layer)
      : NormWeights(layer ? layer->weight : torch::Tensor(), layer ? layer->bias : torch::Tensor(),
                    layer ? layer->epsilon : 0) {}

  explicit operator bool() const { return weight.defined(); }
  NormFactors factors() const {
    return {weight.const_data_ptr<float>(), bias.const_data_ptr<float>(), epsilon, centred};
  }

  torch::Tensor weight, bias;  // [width] float
  float epsilon;
  bool centred;
};

// A linear layer with weights in the kernels' packed layout.

struct PackedLinear {
  // weight [out, in], bias [out] or undefined, both float. `scale` [out] or undefined (LayerScale)
  // multiplies both. Weights are rounded to `type`, and always to the kernels' element type.
  PackedLinear(const Kernels& kernels, torch::ScalarType type, const torch::Tensor& weight,
               const torch::Tensor& bias, const torch::Tensor& scale = {});

  // The first layer of a gated MLP, for the kernels' gates: weight [2·out, in] and bias have the
  // rows of gates, then those of values.
  static PackedLinear gated(const Kernels& kernels, torch::ScalarType type,
                            const torch::Tensor& weight, const torch::Tensor& bias);

  // in [rows, words] -> out, as `finish`, one of the kernels', leaves it. Rows of `out` are
  // out_stride of its elements apart. Panels are shared among threads, except inside a parallel
  // region.
  void apply(const void* in, std::int64_t rows, Epilogue finish, void* out,
             std::int64_t out_stride) const;

  const Kernels* kernels;
  std::int64_t in_words;     // of a row of the input
  std::int64_t out_width;    // features
  std::int64_t out_columns;  // of them that a panel gives: all of its columns, or half
  torch::Tensor panels;      // [⌈out / out_columns⌉, words, columns] int32
  torch::Tensor bias;        // [panels · columns], zeros where there is no feature
};

// A row's width in elements, padded to whole words.
std::int64_t padded_width(const Kernels& kernels, std::int64_t width);

// Multi-head self-attention for the CPU engine: a head's keys and values are packed once, then a
// few rows of queries at a time go through scores, softmax and weighted sum without leaving the
// second-level cache (in the manner of FlashAttention, Dao et al. 2022, arXiv:2205.14135; whole
// rows of scores fit, so that the softmax is the plain one).

// One head of one image, in elements.
struct Head {
  std::int64_t tokens, width;
  std::int64_t row;   // of `out`; a row of `qkv` is three times as long
  void* qkv;          // the head's first query in rows [q of all heads | k of all | v of all]
  void* out;          // the head's first column
  const float* bias;  // [tokens, tokens], for the scores before they are scaled; null: none
};

// Per-thread workspace for a head.
class AttentionScratch {
 public:
  AttentionScratch(const Kernels& kernels, std::int64_t tokens, std::int64_t head_width);

 private:
  friend void attend(const Kernels&, const Head&, AttentionScratch&);
  std::int64_t padded_;                   // tokens, filled up to whole panels
  torch::Tensor keys_, values_;           // panels, int32
  torch::Tensor scores_, probabilities_;  // [query rows, padded_]; one buffer in float
  torch::Tensor inverse_sums_;            // [query rows]
  torch::Tensor sums_;                    // [query rows, head width filled up]
};

// out = softmax((q·kᵀ + bias) / √d)·v. The head's width is even with bf16 and fp16.
void attend(const Kernels& kernels, const Head& head, AttentionScratch& scratch);

// Transforms a block's queries and keys before attention: norms (qk_norm), then rotary positions.

struct QueryKeyChanges {
  QueryKeyChanges(const AttentionWeights& weights, const Architecture& architecture);

  // In place, of the head of that number. Each step computes in float and stores elements.
  void apply(const Kernels& kernels, const Head& head, std::int64_t number) const;

  // Shares the tables of another block of the same rotation: those of a long clip are large.
  void turn_as(const QueryKeyChanges& other);

  NormWeights q_norm, k_norm;                // may be empty
  torch::Tensor sine, cosine;                // as AttentionWeights has them
  torch::Tensor second_sine, second_cosine;  // the same where they do not differ from the former
  std::int64_t prefix;                       // tokens that are not rotated
};

// The CPU engine: the same Vision Transformer as vit.h, computed by kernels of our
// own. An image, or with AMX a few, go through all blocks on one thread while their numbers stay in
// the caches; the images of a batch are shared among LibTorch's threads, and those that do not fill
// all threads are computed with all threads inside each layer. So are long clips, one by one: the
// numbers of thousands of tokens outgrow the caches, and one clip's alone the memory that many
// threads have. Nothing is allocated after the first batch but the result.

// Why the engine does not support this architecture with these kernels; empty if it does.
std::optional<std::string> refusal(const Architecture& architecture, const Kernels& kernels);

class Engine {
 public:
  // Packs the float weights of `model`, rounded to `weights`; the model is no longer needed then.
  // `frees` leaves it without those of its blocks, so that hardly any are in memory twice.
  // ConfigError if refusal().
  Engine(const VisionTransformerImpl& model, const ImageSize& image_size, const Kernels& kernels,
         torch::ScalarType weights, bool frees = false);

  // images [B, 3, H, W] or clips [B, T, 3, H, W] float, contiguous, on the CPU -> [B, features]
  // float, before the projection. `kept`, where options.cut asks for it, becomes what enters that
  // block: [B, tokens, width].
  torch::Tensor forward(const torch::Tensor& images, const FeatureOptions& options,
                        torch::Tensor* kept = nullptr);
  ~Engine();

 private:
  struct Block {
    NormWeights norm1, norm2, attention_norm, mlp_norm;  // the last two may be empty
    PackedLinear qkv, proj, fc1, fc2;
    QueryKeyChanges changes;
    torch::Tensor relative;  // [heads, tokens, tokens] for Head::bias; undefined: none
  };
  struct Workspace;
  class Pass;  // interprets the model (vit.h) with a part of a block as one operation

  static VisionTransformer without_blocks(const VisionTransformerImpl& model,
                                          const ImageSize& image_size);
  Block pack(const BlockImpl& block, const Rotation& rotation, torch::ScalarType weights) const;
  void take_patches(const float* image, void* pixels, std::int64_t row_bytes) const;
  void normalise(const NormWeights& norm, const float* x, std::int64_t rows, Workspace& work) const;
  void add_attention(const Block& block, std::int64_t images, float* x, Workspace& work) const;
  void add_mlp(const Block& block, std::int64_t images, float* x, Workspace& work) const;
  std::int64_t floats_of(Pooling pooling) const;  // of one layer

  const Kernels& kernels_;
  Architecture architecture_;
  ImageSize image_size_;
  Grid grid_;
  std::int64_t tokens_;
  bool one_by_one_;                               // long clips, which all threads share
  std::int64_t images_together_;                  // on one thread
  VisionTransformer model_;                       // see without_blocks()
  std::map<const NormImpl*, NormWeights> norms_;  // the model's own
  torch::Tensor start_;                           // [tokens, width]
  PackedLinear patch_embed_;
  Epilogue end_of_fc1_ = nullptr;  // the activation, or the gate
  std::vector<Block> blocks_;
  std::vector<std::unique_ptr<Workspace>> workspaces_;  // one per thread
};

}  // namespace coldframe::vit::cpu
