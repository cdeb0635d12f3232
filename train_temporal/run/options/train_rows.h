// The options of `train`, as rows.
#pragma once

#include "train_temporal/run/options/options.h"
#include "train_temporal/run/options/rows.h"

namespace coldframe::temporal {

inline constexpr const char* kAllControls = "all";  // --compare without a list

void add_train(OptionRows& rows, TrainOptions& options);
// Parts of these, of which --search draws some.
void add_kind(OptionRows& rows, ModelChoice& choice);
void add_model(OptionRows& rows, ModelConfig& model);
void add_fit(OptionRows& rows, FitOptions& fit);

}  // namespace coldframe::temporal
