// Fits the model `summary` exactly, with the cross-validated best family of summaries and penalty.
#pragma once

#include "train_temporal/fit/trainer.h"

namespace coldframe::temporal {

// Uses the training and the validation part for both choice and fit: divides them into five parts
// by patient (by `task.seed`), predicts each part with fits on the others for every family and
// penalty, and fits the best combination to all of them. A family other than the mean must be
// likelier by odds. The result's validation_logits are predictions without the exam's part, so that
// thresholds are chosen on held-out exams. Its `lead` is set if anything was found. Each target has
// a family of its own. There is one epoch: its losses are those of the final fit, and of the
// predictions of the validation part. A blank model is the linear model of covariates, or a
// constant without them.
FitRecord fit_summary(const FitTask& task);

}  // namespace coldframe::temporal
