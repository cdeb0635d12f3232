// What a training run alone has to tell: its curves, the machine's load, warnings of fits, and how
// it compares with an earlier run.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "common/system/monitor.h"
#include "common/torch/tensor.h"
#include "train_temporal/run/results/results.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {

std::vector<std::size_t> exams_in(const std::vector<Split>& splits);
// Covers everything that the fits depend on: splits, labels, covariates and which features of which
// exams.
std::string data_digest(const Cohort& cohort, const std::vector<Split>& splits);
FoldCurve curve_of(const FinishedFit& fit);

// Null without --monitor.
std::unique_ptr<Monitor> start_monitor(const TrainOptions& options,
                                       const std::vector<torch::Device>& devices);
// Ends it; the report gets what its CSV says.
void add_machine(Monitor& monitor, const std::filesystem::path& csv, TargetReport& report,
                 Json& summary);

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
