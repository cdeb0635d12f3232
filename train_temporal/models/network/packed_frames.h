// A model on a packed batch: all frames at once, for training and for prediction of whole exams.
#pragma once

#include <map>

#include "train_temporal/models/network/torch_operations.h"

namespace coldframe::temporal {

class PackedFrames final : public TorchOperations {
 public:
  // `covariates`: SequenceModel::covariates. All must live on.
  PackedFrames(const ModelConfig& config, const StateDict& tensors, const torch::Tensor& features,
               const PackedBatch& batch, const Dropout& dropout, const torch::Tensor& covariates,
               bool training);

  Value clock() override;
  Value covariates() override;
  Value dropout(const Value& x, RandomPurpose layer) override;
  Value recur(const Value& x, std::int64_t layer) override;
  Value convolve(const Value& x, const std::string& name, std::int64_t width, std::int64_t taps,
                 std::int64_t dilation) override;
  Value attend(const Value& x) override;
  Value pool(const Value& x) override;

 private:
  // The way from packed rows [N, …] to [B, T, …] and back, and what each row's place turns it by.
  struct Grid {
    torch::Tensor to_grid;  // [B · T] rows; behind the end of a sequence any, which `mask` hides
    torch::Tensor to_rows;  // [N]
    torch::Tensor mask;     // [B, 1, 1, T], true for frames; undefined where all are
    torch::Tensor cosine, sine;  // [N, 1, 1, d / 2]
  };

  void add_noise(torch::Tensor& x) override;
  torch::Tensor decaying(const torch::Tensor& x, std::int64_t layer);
  torch::Tensor recurrent_on_cuda(const torch::Tensor& x, at::TensorList weights,
                                  const torch::Tensor& start) const;
  torch::Tensor last_of(const torch::Tensor& states) const;
  torch::Tensor in_grid(const torch::Tensor& rows) const;
  torch::Tensor rows_before(std::int64_t back) const;
  torch::Tensor places() const;
  const Grid& grid();

  const PackedBatch& batch_;
  const Dropout& dropout_;
  const torch::Tensor& covariates_;
  const bool training_;
  const torch::Device device_;
  const std::vector<std::int64_t> first_;  // packed row of each step, [T + 1]; the last entry is N
  bool of_exams_ = false;                  // after pooling, and without frames
  std::map<std::int64_t, torch::Tensor> rows_before_;
  std::optional<Grid> grid_;
};

// The most heads of an even width of kHeadWidth or more; one, where there is no such division.
std::int64_t attention_heads(std::int64_t hidden);
// Radians that one place turns each pair of a head by, [d / 2] float64.
torch::Tensor rotary_speeds(std::int64_t hidden);

}  // namespace coldframe::temporal
