// Fits the model `summary`: exactly, with the family of summaries and the penalty that predict
// patients of other parts best.
#pragma once

#include "train_temporal/fit/trainer.h"

namespace coldframe::temporal {

// The training and the validation part choose and fit: both are divided into five parts by patient
// (by `task.seed`), and for every family and penalty each part is predicted by a fit on the others.
// The best one is then fitted to all of them; another family than the mean must be likelier by
// odds. The result's validation_logits are predictions without the exam's part, so that thresholds
// are chosen on exams that were held out. Its `lead` says whether anything was found. Each target
// has a family of its own. There is one epoch: its losses are those of the final fit, and of the
// predictions of the validation part.
FitRecord fit_summary(const FitTask& task);

}  // namespace coldframe::temporal
