// The control `summary`: a linear model on one family of summaries of every feature over the frames
// of an exam, which tells whether a simple model would do.
#pragma once

#include "train_temporal/models/sequence_model.h"
#include "train_temporal/models/summary/summaries.h"

namespace coldframe::temporal {

// Output c of an exam is  b_c + Σ_d w_cd (s_d − m_cd) / σ_cd  with the summaries s of the family of
// c; those that are NaN count as their mean. Each target has a family of its own. It is fitted by
// fit_summary(), never by steps. Tensors:
//   family [C], as Family numbers them       per_second [1], 0 or 1
//   summary_mean, summary_std [C, D]         head.weight [C, D], head.bias
//   feature_mean, feature_std [D]            of the training part's frames, to explain outputs by
class SummaryModel final : public SequenceModel {
 public:
  explicit SummaryModel(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& features, const PackedBatch& batch,
                        const Dropout& dropout) override;
  void set_statistics(const InputStatistics& statistics) override;
  std::map<std::string, double> drawn_weights() const override;  // which a fit replaces
  bool sees_times() const override;                              // slopes per second do

  // The summaries [B, D] that an output of the family sees: of all features, or of those of the
  // one stream that is seen.
  torch::Tensor summaries(Family of, const torch::Tensor& features, const PackedBatch& batch);

  torch::Tensor family, per_second, summary_mean, summary_std;
  torch::nn::Linear head{nullptr};

 private:
  ModelConfig config_;
  torch::Tensor feature_mean, feature_std;
};

}  // namespace coldframe::temporal
