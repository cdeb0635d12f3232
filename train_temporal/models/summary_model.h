// What a feature does over the frames of an exam, as one number: the families of summaries that the
// model `summary` chooses among. Frames that lack a feature (of a stream) are left out; a summary
// without any frame is NaN.
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
  kDeviation,  // by n
  kFirst,
  kLast,
  kChange,  // last − first
  kSlope,   // of a straight line, by least squares; 0 where there is one instant
  kVisits,  // mean of this visit's frames − mean of the first visit's
};
inline constexpr std::int64_t kFamilies = 9;
// Below this a variance counts as this: the square root has a slope there.
inline constexpr double kMinSummaryVariance = 1e-12;

// "mean", "last − first", …: in reports.
std::string family_name(Family family);

struct SummaryRead {
  bool per_second = false;  // slopes; else per frame
  bool may_lack = true;     // a frame may lack features
};

// features: [N, D], packed as the batch says. Returns [B, D], in the batch's order.
torch::Tensor summarise(Family family, const torch::Tensor& features, const PackedBatch& batch,
                        const SummaryRead& read);

// The control `summary`: a linear model on one family of summaries of every feature over the frames
// of an exam, which tells whether a simple model would do.

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
