// Summary statistics of a feature over the frames of an exam: the families among which the model
// `summary` chooses. Frames that lack the feature (of a stream) are left out; without any frame the
// summary is NaN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"
#include "train_temporal/models/sequence_model.h"

namespace coldframe::temporal {

enum class Family : std::int64_t {
  kAverage,
  kMaximum,
  kMinimum,
  kDeviation,  // divides by n
  kFirst,
  kLast,
  kChange,  // last − first
  kSlope,   // of a least-squares line; 0 for a single instant
  kVisits,  // mean of this visit's frames − mean of the first visit's
};
inline constexpr std::int64_t kFamilies = 9;
// Lower bound of a variance, where the square root has a finite slope.
inline constexpr double kMinSummaryVariance = 1e-12;

// "mean", "last − first", …: in reports.
std::string family_name(Family family);
// False for those that are the same in any order of the frames. `name`: as above.
bool depends_on_order(const std::string& name);

struct SummaryRead {
  bool per_second = false;  // slopes per second; else per frame
  bool may_lack = true;     // a frame may lack features
};

// features: [N, D], packed like `batch`. Returns [B, D] in the order of the batch.
torch::Tensor summarise(Family family, const torch::Tensor& features, const PackedBatch& batch,
                        const SummaryRead& read);

// The control `summary`: a linear model on one family of summaries of every feature over the frames
// of an exam. It shows whether a simple model suffices.

// Output c of an exam is  b_c + Σ_d w_cd (s_d − m_cd) / σ_cd  with the summaries s of the family of
// c; NaN summaries are replaced by their mean. Each target has a family of its own. fit_summary()
// fits the model exactly, never by gradient steps. Tensors:
//   family [C], as Family numbers them       per_second [1], 0 or 1
//   summary_mean, summary_std [C, D]         head.weight [C, D], head.bias
//   feature_mean, feature_std [D]            of the training part's frames, to explain outputs by
class SummaryModel final : public SequenceModel {
 public:
  explicit SummaryModel(const ModelConfig& config);
  torch::Tensor forward(const torch::Tensor& features, const PackedBatch& batch,
                        const Dropout& dropout) override;
  void set_statistics(const InputStatistics& statistics) override;
  std::map<std::string, double> drawn_weights() const override;  // a fit replaces them
  bool sees_times() const override;                              // slopes per second do

  // The summaries [B, D] that an output of the family takes: of all features, or of those of the
  // only visible stream.
  torch::Tensor summaries(Family of, const torch::Tensor& features, const PackedBatch& batch);
  // (s − m_c) / σ_c of each output c, [B, D]; 0 where the summary is NaN.
  std::vector<torch::Tensor> standardised(const torch::Tensor& features, const PackedBatch& batch);

  torch::Tensor family, per_second, summary_mean, summary_std;
  torch::nn::Linear head{nullptr};

 private:
  ModelConfig config_;
  torch::Tensor feature_mean, feature_std;
};

}  // namespace coldframe::temporal
