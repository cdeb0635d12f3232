// Two finished runs on the exams that both have held out, from what their folders say.
#pragma once

#include <filesystem>

#include "train_temporal/report/study.h"

namespace coldframe::temporal {

// The runs as the two models of a report: the first is the main one. Where both divided the exams
// alike, figures are taken fold by fold, else with all exams of a repeat together. DataError where
// they learnt different targets, exams have different labels, or no exam is held out by both.
StudyReport compare_held_out(const std::filesystem::path& run, const std::filesystem::path& against,
                             const BootstrapOptions& bootstrap, const Questions& questions);

}  // namespace coldframe::temporal
