// The figure by which a target is judged, of a validation part: early stopping can watch it.
#pragma once

#include <optional>
#include <vector>

#include "train_temporal/splits/labels.h"
#include "train_temporal/splits/split.h"

namespace coldframe::temporal {

// The mean of main_metric() over the targets of which the validation part has one (AUROC needs two
// classes); empty when it has none.
std::optional<double> validation_figure(const Targets& targets, const Split& split,
                                        const std::vector<double>& outputs);

}  // namespace coldframe::temporal
