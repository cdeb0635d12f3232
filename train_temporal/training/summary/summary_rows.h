// The labels of a target, as a penalised regression is fitted to them.
#pragma once

#include <span>
#include <vector>

#include "train_temporal/ridge/row_labels.h"
#include "train_temporal/splits/targets.h"

namespace coldframe::temporal {

// Of `exams`, which all have a label.
RowLabels row_labels(const Labels& labels, const Readout& reading,
                     const std::vector<std::size_t>& exams);

// A model's outputs [n, Target::outputs()] from those of the regression [n, RowLabels::outputs]:
// binary targets have two, of which softmax makes what the logistic function makes of one.
std::vector<double> as_outputs(const Target& target, std::span<const double> z);

}  // namespace coldframe::temporal
