// A covariate that almost determines the label by itself is more often a leak than a finding: a
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

inline constexpr double kNearLeak = 0.98;  // threshold for AUROC, |rank correlation| or Harrell's C

// Warns if the column alone, or its missingness, reaches kNearLeak for a per-exam target.
// Categories with fewer than five patients are merged. `patient`: patient index of every exam.
std::vector<std::string> near_leaks(const CovariateColumn& column, const Targets& targets,
                                    const std::vector<std::size_t>& patient);

// The covariates of a cohort's exams, for training and for applying trained models.

// The columns that --covariates names. Adds notes and warnings to the cohort, among them the number
// of held-out exams with a category that is unseen in their fold's training part. ConfigError if a
// column is a target, names patients or parts, has no value or a single one, or has too many
// categories.
std::vector<CovariateColumn> read_covariates(Cohort& cohort, const std::vector<Split>& splits,
                                             const TrainOptions& options);

// Adds the exams' encoded covariates to a fit, and room for them to its configuration.
void take_covariates(FitTask& task, const CovariateEncoding& encoding,
                     const std::vector<CovariateColumn>& columns, bool at_frames);

Json covariates_json(const std::vector<CovariateColumn>& columns,
                     bool at_frames);  // for config.json

// What a report states about covariates, for the exams given by index.
std::vector<CovariateFacts> covariate_facts(const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& used);

}  // namespace coldframe::temporal
