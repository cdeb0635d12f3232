// From the fits' logits to held-out predictions: each seed calibrated by its temperature, seeds
// averaged, decisions at the threshold. Temperature and threshold come from the validation part.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/cohort.h"
#include "train_temporal/cross_validation.h"
#include "train_temporal/report/report.h"

namespace coldframe::temporal {

// One fold of one model.
struct FoldResult {
  const Split* split;
  std::vector<double> temperatures;  // by seed
  double threshold = 0.5;
  ScoredExams exams;  // the test part, in its order
};

struct ModelFolds {
  std::string model;
  std::vector<FoldResult> folds;
};

// Fits come as run_fits() orders them: `seeds` of a fold in a row.
std::vector<ModelFolds> assemble(const std::vector<FinishedFit>& fits, const Labels& labels,
                                 std::size_t seeds);

ModelResult to_result(const ModelFolds& folds, const Cohort& cohort);

// repeat,fold,exam,patient,label,p_<class>…,predicted
std::string predictions_csv(const ModelFolds& folds, const Cohort& cohort);
// model,repeat,fold,seed,epoch,train_loss,validation_loss,learning_rate,best
std::string epochs_csv(const std::vector<FinishedFit>& fits);

}  // namespace coldframe::temporal
