// A temporal convolutional network (Bai, Kolter and Koltun 2018, arXiv:1803.01271): residual blocks
// of two convolutions over three frames each, d = 2^L apart in block L. A convolution sees a frame
// and those before it, none after it, so that frames that follow cannot change what is known of one
// and it can be asked frame by frame; before the first frame are zeros.
//   x ← g(x' + g(conv2(g(conv1(x)))))     x' = downsample(x) where widths differ, else x
// g is GELU in place of the paper's ReLU, smooth as integrated gradients want it, with dropout
// behind each convolution's; weights are not normalised. Its own tensors are torch.nn.Conv1d's:
//   tcn.L.conv1.weight [H, I or H, 3], .bias        tcn.L.conv2.weight [H, H, 3], .bias
//   tcn.0.downsample.weight [H, I, 1], .bias        with time, where I is not H
#pragma once

#include <torch/nn/modules/conv.h>
#include <memory>
#include <vector>

#include "train_temporal/models/ordered/ordered_model.h"

namespace coldframe::temporal {

inline constexpr std::int64_t kTcnTaps = 3;  // frames that a convolution sees
constexpr std::int64_t tcn_dilation(std::int64_t layer) {
  return std::int64_t{1} << layer;
}
// Frames before its own that a convolution of this block reaches back.
constexpr std::int64_t tcn_reach(std::int64_t layer) {
  return (kTcnTaps - 1) * tcn_dilation(layer);
}

extern const Architecture kTcn;

class TcnModel final : public OrderedModel {
 public:
  explicit TcnModel(const ModelConfig& config);

 private:
  struct Block {
    torch::nn::Conv1d conv1{nullptr}, conv2{nullptr}, downsample{nullptr};
  };
  torch::Tensor encode(torch::Tensor x, const SequenceBatch& batch,
                       const Dropout& dropout) override;
  // The state: of each convolution the last inputs that it reaches back to, [reach, its inputs].
  torch::Tensor encode_next(torch::Tensor x, const torch::Tensor& time,
                            std::vector<torch::Tensor>& state) override;

  std::vector<Block> blocks_;
};

}  // namespace coldframe::temporal
