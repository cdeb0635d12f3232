// The ViT whose end is trained, the part of it that is, and how.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/text/text.h"
#include "common/torch/tensor.h"
#include "extract/vit/architecture.h"
#include "extract/vit/pooling.h"
#include "extract/vit/vit.h"
#include "train_temporal/fit/tune/recompute.h"
#include "train_temporal/models/dropout.h"

namespace coldframe::tune {

struct ChainShape {
  vit::Architecture architecture;
  ImageSize image_size;
  vit::FeatureOptions features;
  std::int64_t projected = 0;  // features that a projection gives, 0 without one
  std::int64_t cut = 0;        // the block whose input is given; 0: pixels
  std::int64_t blocks = 0;     // the last so many are trained
  std::int64_t lora_rank = 0;  // 0: themselves, with norm and projection; else matrices beside them
  double lora_alpha = 16;
  bool dropout = false;
  double drop_path = 0;                           // of the last block, see Chain
  torch::ScalarType precision = torch::kFloat32;  // or bfloat16, float16: autocast

  // Patch embedding, tokens and positions are trained, too.
  bool whole() const { return cut == 0 && blocks == architecture.depth && lora_rank == 0; }
  std::int64_t first_block() const { return architecture.depth - blocks; }
  std::int64_t tokens() const;         // of an image
  std::int64_t feature_count() const;  // of an image
  std::uint64_t token_bytes() const;   // of an image's tokens in float32
  // N² of all heads of an image in float32: what a kernel takes that writes attention out.
  std::uint64_t attention_bytes() const;
};

// The end of a ViT as a chain of steps, each of which may run with a graph, without one, or again:
// the patch embedding where the cut holds pixels, each block, and norm and pooling.

// One step gives these to the next: tokens [n, tokens, D], or at first a cut's rows, or at last
// features [n, F]; where layers are put side by side, behind them the features of those before.
using Values = std::vector<torch::Tensor>;

// A step is computed in this way; evaluation is without dropout, in float32.
struct Pass {
  const temporal::Dropout* dropout = nullptr;
  std::span<const std::uint64_t> keys{};          // [n], what dropout depends on besides the step
  torch::ScalarType precision = torch::kFloat32;  // or bfloat16, float16: autocast
};

class Chain {
 public:
  // `levels`: [3, 256], what becomes of a pixel. The trained parameters are those that require a
  // gradient. `drop_path`: the fraction of frames for which training leaves out what the last block
  // adds, as timm's DropPath (Huang et al. 2016, arXiv:1603.09382); less before it, none in the
  // first block.
  Chain(vit::VisionTransformer model, vit::FeatureOptions features, std::int64_t cut,
        torch::Tensor levels, double drop_path = 0);

  std::size_t size() const { return steps_.size(); }
  // The first step that has a trained parameter; size() where none has.
  std::size_t first_trained() const;
  const std::vector<torch::Tensor>& trained(std::size_t step) const { return trained_[step]; }
  std::string name(std::size_t step) const;  // "patch embedding", "block 3", "norm and pooling"
  // Steps of the same kind take the same, in memory and in time: what they are, what of them is
  // trained, behind how many layers they lie whose features they hand on, and whether frames leave
  // them out.
  std::string kind(std::size_t step) const;
  // What it gives is not like what it takes.
  bool changes_shape(std::size_t step) const;
  // `keep`: what its graph keeps, where there is one.
  Values forward(std::size_t step, const Values& input, const Pass& pass,
                 Keep keep = Keep::kWhole) const;

 private:
  enum class Kind { kEmbed, kBlock, kHead };
  struct Step {
    Kind kind;
    std::int64_t block = 0;
    bool tap = false;         // what enters the block is one of the layers
    std::int64_t layers = 0;  // before it
  };
  using Operations = Recomputing<RecordedOperations>;
  // Of frames that leave out what a block adds.
  double dropped_share(std::int64_t block) const;
  torch::Tensor embed(Operations& ops, const torch::Tensor& rows) const;
  torch::Tensor dropped(const torch::Tensor& added, std::int64_t block, std::size_t part,
                        const Pass& pass) const;
  Values pooled(Operations& ops, const Values& input) const;
  static bool uses(const Step& step, const std::string& parameter);
  void find_trained();

  vit::VisionTransformer model_;
  vit::FeatureOptions features_;
  torch::Tensor levels_;
  double drop_path_;
  std::vector<Step> steps_;
  std::vector<std::vector<torch::Tensor>> trained_;  // of each step
};

}  // namespace coldframe::tune
