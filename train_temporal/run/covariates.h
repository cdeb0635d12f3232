// A covariate that tells the answer nearly by itself is a leak more often than a finding: a
// treatment, a later visit, a device of the ward.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/data/covariates.h"
#include "train_temporal/fit/trainer.h"
#include "train_temporal/labels/labels.h"
#include "train_temporal/report/report.h"
#include "train_temporal/run/cohort.h"

namespace coldframe::temporal {

inline constexpr double kNearLeak = 0.98;  // of an AUROC, a |rank correlation| or Harrell's C

// Warns where the column alone, or which exams have a value of it, reaches kNearLeak for a target
// of exams. Categories of fewer than five patients count as one. `patient`: of every exam, by
// number.
std::vector<std::string> near_leaks(const CovariateColumn& column, const Targets& targets,
                                    const std::vector<std::size_t>& patient);

// The covariates of a cohort's exams, for training and for applying what was trained.

// The columns that --covariates names. Adds to the cohort's notes and warnings, which say, too, how
// many held-out exams have a category that their fold's training part has not. ConfigError where
// one is a target, names patients or parts, has no value or only one, or too many categories.
std::vector<CovariateColumn> read_covariates(Cohort& cohort, const std::vector<Split>& splits,
                                             const TrainOptions& options);

// A fit takes these: the exams' encoded covariates, and a configuration with room for them.
void take_covariates(FitTask& task, const CovariateEncoding& encoding,
                     const std::vector<CovariateColumn>& columns, bool at_frames);

Json covariates_json(const std::vector<CovariateColumn>& columns,
                     bool at_frames);  // for config.json

// A report says this of them, of the exams given by index.
std::vector<CovariateFacts> covariate_facts(const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& used);

}  // namespace coldframe::temporal
