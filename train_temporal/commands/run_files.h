// Files of a run: its configuration as names and values, its models and folds.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/report/report.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/cross_validation.h"
#include "train_temporal/run/results.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {

// A run's configuration as a list of names and values.

// Nested objects as "outer.inner", lists of words as "a, b" or "none", and the settings that
// `--search` tries as their number.
KeyValues flat_config(Json config);

// The files that a finished run holds beside its report.

// splits.csv, metrics.csv, validation.csv, and the predictions of every model.
void write_tables(const RunFolder& folder, const Experiment& experiment, const Cohort& cohort,
                  const std::vector<FinishedFit>& fits,
                  const std::vector<ModelPredictions>& models);

// The main model's fits lie in models/, a control's in controls/NAME/; beside each that tuned the
// ViT lies the folder of what it has made of it.
void write_models(const RunFolder& folder, const Experiment& experiment, const Cohort& cohort,
                  const std::vector<std::string>& source_kinds,
                  const std::vector<FinishedFit>& fits,
                  const std::vector<ModelPredictions>& models);

// Drawings and tables of a report, and of the page it makes, as files of their own in a folder
// beside it. Warns where drawings are SVG files alone.
void write_figures(const std::filesystem::path& folder, const RunReport& report,
                   const html::Page& page);
// ConfigError where a finished run has none.
void require_figures(const std::filesystem::path& run);

}  // namespace coldframe::temporal
