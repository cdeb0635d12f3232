// The GRU layer against torch::nn::GRU: outputs, final states and all gradients.
#include "train_temporal/models/fused_gru.h"

#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils/rnn.h>

#include "tests/train_temporal/made_data.h"

namespace coldframe::temporal {
namespace {

using torch::Tensor;
using torch::nn::utils::rnn::PackedSequence;

struct Case {
  const char* name;
  std::vector<std::int64_t> step_sizes;
  std::int64_t input, hidden, layers;
  bool bidirectional;
};

class EveryShape : public ::testing::TestWithParam<Case> {};

INSTANTIATE_TEST_SUITE_P(
    GruLayer, EveryShape,
    ::testing::Values(Case{"even", {4, 4, 4, 4, 4}, 24, 16, 1, false},
                      Case{"ragged", {7, 7, 5, 4, 4, 1, 1}, 24, 16, 1, false},
                      Case{"one_step", {3}, 8, 5, 1, true},
                      Case{"one_sequence", {1, 1, 1, 1, 1, 1}, 3, 7, 2, true},
                      Case{"odd_sizes", {9, 6, 6, 2}, 19, 13, 2, false},
                      Case{"both_ways", {7, 7, 5, 4, 4, 1, 1}, 24, 16, 1, true},
                      Case{"deep", {6, 6, 3, 2}, 20, 16, 3, false},
                      Case{"deep_both_ways", {6, 6, 3, 2}, 20, 16, 3, true},
                      Case{"as_trained", std::vector<std::int64_t>(12, 16), 128, 128, 1, false}),
    [](const auto& shape) { return shape.param.name; });

Tensor noise(at::IntArrayRef sizes, std::uint64_t seed) {
  Tensor values = torch::empty(sizes);
  CounterRandom random({seed});
  float* out = values.data_ptr<float>();
  for (std::int64_t i = 0; i < values.numel(); ++i) {
    out[i] = static_cast<float>(testing::noise(random));
  }
  return values;
}

// A GruPass on tensors; parameters in the order of torch::nn::GRU's.
class Layer {
 public:
  Layer(const GruShape& shape, const std::vector<std::int64_t>& step_sizes,
        const std::vector<Tensor>& parameters, const std::vector<Tensor>& masks = {})
      : shape_(shape), sizes_(step_sizes), masks_(masks), pass_(shape) {
    for (const Tensor& parameter : parameters) {
      parameters_.push_back(parameter.detach().contiguous());
      by_column_.push_back(parameters_.back().t().contiguous());
    }
    for (std::size_t i = 0; i < parameters_.size(); i += 4) {
      const auto at = [](const Tensor& tensor) { return tensor.const_data_ptr<float>(); };
      weights_.push_back({at(parameters_[i]), at(parameters_[i + 1]), at(parameters_[i + 2]),
                          at(parameters_[i + 3]), at(by_column_[i]), at(by_column_[i + 1])});
    }
    for (const Tensor& mask : masks_) mask_values_.push_back(mask.const_data_ptr<float>());
  }

  // The last layer's states [N, W] and every run's final state [layers · directions, B, H].
  std::pair<Tensor, Tensor> forward(const Tensor& x) {
    x_ = x.detach().contiguous();
    pass_.forward(weights_, steps(), x_.const_data_ptr<float>(), mask_values_);
    Tensor output = torch::empty({x.size(0), shape_.width()});
    std::copy_n(pass_.output(), output.numel(), output.data_ptr<float>());
    Tensor last =
        torch::empty({shape_.layers * shape_.directions(), sizes_.front(), shape_.hidden});
    for (std::int64_t run = 0; run < last.size(0); ++run) {
      std::copy_n(pass_.last(run / shape_.directions(), run % shape_.directions()),
                  last[run].numel(), last[run].data_ptr<float>());
    }
    return {output, last};
  }

  // The gradients of the input and of each parameter.
  std::vector<Tensor> backward(const Tensor& d_output, const Tensor& d_last) {
    std::vector<Tensor> result = {torch::empty_like(x_)};
    std::vector<GruGradients> gradients;
    for (const Tensor& parameter : parameters_) result.push_back(torch::empty_like(parameter));
    for (std::size_t i = 1; i < result.size(); i += 4) {
      const auto at = [&](std::size_t k) { return result[i + k].data_ptr<float>(); };
      gradients.push_back({at(0), at(1), at(2), at(3)});
    }
    std::vector<const float*> last;
    for (std::int64_t run = 0; run < d_last.size(0); ++run) {
      last.push_back(d_last.const_data_ptr<float>() + run * d_last.stride(0));
    }
    pass_.backward(
        weights_, steps(), x_.const_data_ptr<float>(), mask_values_,
        {d_output.const_data_ptr<float>(), last, result[0].data_ptr<float>(), gradients});
    return result;
  }

 private:
  PackedSteps steps() const { return {sizes_, x_.size(0)}; }

  GruShape shape_;
  std::vector<std::int64_t> sizes_;
  std::vector<Tensor> masks_, parameters_, by_column_;
  std::vector<const float*> mask_values_;
  std::vector<GruWeights> weights_;
  GruPass pass_;
  Tensor x_;
};

void expect_near(const Tensor& ours, const Tensor& theirs, const std::string& what) {
  EXPECT_LE((ours - theirs).abs().max().item<double>(), 1e-5) << what;
}

TEST_P(EveryShape, EqualsTorchInOutputsAndAllGradients) {
  at::set_num_threads(1);
  const Case& shape = GetParam();
  const Tensor step_sizes = torch::tensor(shape.step_sizes, torch::kInt64);
  torch::nn::GRU theirs(torch::nn::GRUOptions(shape.input, shape.hidden)
                            .num_layers(shape.layers)
                            .bidirectional(shape.bidirectional));
  std::uint64_t seed = 20;
  const double bound = 2 / std::sqrt(double(shape.hidden));  // twice PyTorch's initial weights
  for (Tensor& parameter : theirs->parameters()) {
    torch::NoGradGuard copying;
    parameter.copy_(bound * noise(parameter.sizes(), seed++));
  }
  const Tensor x = noise({step_sizes.sum().item<std::int64_t>(), shape.input}, 1).requires_grad_();
  const auto [packed, their_last] =
      theirs->forward_with_packed_input(PackedSequence(x, step_sizes));
  // Every output and every final state counts differently, and all together as in a mean.
  const Tensor d_output = noise(packed.data().sizes(), 8) / double(x.size(0));
  const Tensor d_last = noise(their_last.sizes(), 9) / double(their_last.size(1));
  ((packed.data() * d_output).sum() + (their_last * d_last).sum()).backward();

  Layer layer({shape.input, shape.hidden, shape.layers, shape.bidirectional}, shape.step_sizes,
              theirs->parameters());
  const auto [output, last] = layer.forward(x);
  expect_near(output, packed.data(), "output");
  expect_near(last, their_last, "last");
  const std::vector<Tensor> gradients = layer.backward(d_output, d_last);
  expect_near(gradients[0], x.grad(), "gradient of the input");
  std::size_t number = 1;
  for (const auto& item : theirs->named_parameters()) {
    expect_near(gradients[number++], item.value().grad(), "gradient of " + item.key());
  }
}

// Nothing is packed: sequences have one length, [B, T, I].
TEST(GruLayer, EqualsTorchOnPaddedInputOfOneLength) {
  torch::NoGradGuard no_grad;
  torch::nn::GRU theirs(torch::nn::GRUOptions(6, 5).batch_first(true));
  const Tensor x = noise({3, 4, 6}, 1);
  const auto [expected, their_last] = theirs->forward(x);
  Layer layer({6, 5}, {3, 3, 3, 3}, theirs->parameters());
  const auto [output, last] = layer.forward(x.transpose(0, 1).reshape({12, 6}));
  expect_near(output.view({4, 3, 5}).transpose(0, 1), expected, "output");
  expect_near(last, their_last, "last");
}

// A sequence has the same bits alone and beside others, longer and shorter ones.
TEST_P(EveryShape, GivesASequenceTheSameBitsInAnyBatch) {
  const Case& shape = GetParam();
  const GruShape gru{shape.input, shape.hidden, shape.layers, shape.bidirectional};
  torch::nn::GRU named(torch::nn::GRUOptions(shape.input, shape.hidden)
                           .num_layers(shape.layers)
                           .bidirectional(shape.bidirectional));
  const std::vector<Tensor> parameters = named->all_weights();
  torch::NoGradGuard no_grad;
  const Tensor x =
      noise({std::accumulate(shape.step_sizes.begin(), shape.step_sizes.end(), std::int64_t{0}),
             shape.input},
            1);
  const auto [output, last] = Layer(gru, shape.step_sizes, parameters).forward(x);
  for (std::int64_t sequence = 0; sequence < shape.step_sizes.front(); ++sequence) {
    std::vector<std::int64_t> rows;
    std::int64_t row = 0;
    for (std::int64_t size : shape.step_sizes) {
      if (sequence < size) rows.push_back(row + sequence);
      row += size;
    }
    const Tensor index = torch::tensor(rows, torch::kInt64);
    const std::vector<std::int64_t> ones(rows.size(), 1);
    const auto [alone, alone_last] = Layer(gru, ones, parameters).forward(x.index_select(0, index));
    EXPECT_TRUE(alone.equal(output.index_select(0, index))) << sequence;
    EXPECT_TRUE(alone_last.squeeze(1).equal(last.select(1, sequence))) << sequence;
  }
}

// Masks between layers: the same as multiplying by hand between one-layer GRUs, there and back.
TEST(GruLayer, DropsOutBetweenLayers) {
  const std::vector<std::int64_t> sizes = {5, 3, 3, 1};
  const auto weights = [](std::int64_t inputs, std::uint64_t seed) {
    std::vector<Tensor> result;
    for (const auto& shape :
         std::vector<std::vector<std::int64_t>>{{18, inputs}, {18, 6}, {18}, {18}}) {
      result.push_back(noise(shape, seed++));
    }
    return result;
  };
  const std::vector<Tensor> first = weights(4, 30), second = weights(6, 40);
  std::vector<Tensor> both = first;
  both.insert(both.end(), second.begin(), second.end());
  const Tensor mask = (noise({12, 6}, 3) > 0).to(torch::kFloat32) * 2;
  const Tensor x = noise({12, 4}, 1), d_output = noise({12, 6}, 8);
  const Tensor nothing = torch::zeros({1, 5, 6});
  Layer together({4, 6, 2, false}, sizes, both, {mask}), below({4, 6, 1, false}, sizes, first),
      above({6, 6, 1, false}, sizes, second);
  EXPECT_TRUE(together.forward(x).first.equal(above.forward(below.forward(x).first * mask).first));
  const auto ours = together.backward(d_output, torch::zeros({2, 5, 6}));
  const auto last = above.backward(d_output, nothing);
  const auto start = below.backward(last[0] * mask, nothing);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(ours[1 + i].equal(start[1 + i])) << i;
    EXPECT_TRUE(ours[5 + i].equal(last[1 + i])) << i;
  }
  EXPECT_TRUE(ours[0].equal(start[0]));
}

}  // namespace
}  // namespace coldframe::temporal
