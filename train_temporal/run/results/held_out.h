// Two finished runs on the exams that both have held out, from what their folders say.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "train_temporal/report/run_report.h"
#include "train_temporal/tasks/target.h"

namespace coldframe::temporal {

// The runs as the two models of a report: the first is the main one. Where both divided the exams
// alike, figures are taken fold by fold, else with all exams of a repeat together; times to an
// event are compared at the horizons of both. DataError where exams have different labels, or no
// exam is held out by both, or no horizon common to both.
RunReport compare_held_out(const std::filesystem::path& run, const std::filesystem::path& against,
                           const BootstrapOptions& bootstrap, const Questions& questions);

// ConfigError unless `run` is a finished run that learnt these targets; DataError where times to an
// event have no horizon in common.
void require_comparable(const std::filesystem::path& run, const std::vector<Target>& targets);

// ConfigError unless both learnt the same targets; a time to an event by any task, up to any
// horizons.
void require_same_question(const std::vector<Target>& a, const std::string& name_a,
                           const std::vector<Target>& b, const std::string& name_b);

}  // namespace coldframe::temporal
