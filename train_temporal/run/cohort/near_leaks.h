// A covariate that tells the answer nearly by itself is a leak more often than a finding: a
// treatment, a later visit, a device of the ward.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/data/covariates.h"
#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {

inline constexpr double kNearLeak = 0.98;  // of an AUROC, a |rank correlation| or Harrell's C

// Warns where the column alone, or which exams have a value of it, reaches kNearLeak for a target
// of exams. Categories of fewer than five patients count as one. `patient`: of every exam, by
// number.
std::vector<std::string> near_leaks(const CovariateColumn& column, const Targets& targets,
                                    const std::vector<std::size_t>& patient);

}  // namespace coldframe::temporal
