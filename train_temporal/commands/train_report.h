// What a training run alone has to tell: its curves, warnings of fits, and how it compares with an
// earlier run.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "train_temporal/run/results/results.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {

std::vector<std::size_t> exams_in(const std::vector<Split>& splits);
// Covers everything that the fits depend on: splits, labels, covariates and which features of which
// exams.
std::string data_digest(const Cohort& cohort, const std::vector<Split>& splits);
FoldCurve curve_of(const FinishedFit& fit);

// Adds the comparison with --against to the run and its summary; its text, empty where there is
// none. A run whose exams the other knows by other labels is warned of and not lost.
std::string compare_with_earlier(const TrainOptions& options, const RunFolder& folder,
                                 Json& summary);

// Prints the comparison of a run that was finished before, where --against asks for one.
void tell_comparison(const TrainOptions& options);

// Warns of fits that diverged, and of those of the main model, which reports call `name`, that kept
// the weights of their first epoch, or those that they went on from.
std::vector<std::string> fit_warnings(const std::vector<FinishedFit>& fits,
                                      const TrainOptions& options, const std::string& name);

}  // namespace coldframe::temporal
