// What a feature does over the frames of an exam, as one number: the families of summaries that the
// model `summary` chooses among. Frames that lack a feature (of a stream) are left out; a summary
// without any frame is NaN.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/batcher.h"

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
inline constexpr double kLeastSummaryVariance = 1e-12;

// "mean", "last − first", …: in reports.
std::string family_name(Family family);

struct SummaryRead {
  bool per_second = false;  // slopes; else per frame
  bool may_lack = true;     // a frame may lack features
};

// features: [N, D], packed as the batch says. Returns [B, D], in the batch's order.
torch::Tensor summarise(Family family, const torch::Tensor& features, const PackedBatch& batch,
                        const SummaryRead& read);

}  // namespace coldframe::temporal
