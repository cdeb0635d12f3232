// The figure by which a target is judged, of a validation part: early stopping can watch it.
#pragma once

#include <optional>
#include <vector>

#include "train_temporal/splits/split.h"
#include "train_temporal/splits/targets.h"

namespace coldframe::temporal {

// The validation part as metrics want it, of one target, from the outputs [n, C] of all. Decisions
// are made at 0.5 and without a temperature: both are fitted after the last epoch only.
ScoredExams validation_rows(const Targets& targets, std::size_t target, const Split& split,
                            const std::vector<double>& outputs);

// The mean of main_metric() over the targets of which the validation part has one (AUROC needs two
// classes); empty when it has none.
std::optional<double> validation_figure(const Targets& targets, const Split& split,
                                        const std::vector<double>& outputs);

}  // namespace coldframe::temporal
