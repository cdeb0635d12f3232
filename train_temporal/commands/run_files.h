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

// Nested objects become "outer.inner", lists of words "a, b" or "none", and the settings of
// `--search` their number.
KeyValues flat_config(Json config);

// The files of a finished run next to its report.

// splits.csv, metrics.csv, validation.csv, and the predictions of every model.
void write_tables(const RunFolder& folder, const Experiment& experiment, const Cohort& cohort,
                  const std::vector<FinishedFit>& fits,
                  const std::vector<ModelPredictions>& models);

// Writes the main model's fits to models/, a control's to controls/NAME/; each fit that tuned the
// ViT gets a folder with the tuned ViT next to it.
void write_models(const RunFolder& folder, const Experiment& experiment, const Cohort& cohort,
                  const std::vector<std::string>& source_kinds,
                  const std::vector<FinishedFit>& fits,
                  const std::vector<ModelPredictions>& models);

// Writes plots and tables of a report and of its page as separate files in a folder next to it.
// Warns if plots are SVG files only.
void write_figures(const std::filesystem::path& folder, const RunReport& report,
                   const html::Page& page);
// ConfigError if a finished run has none.
void require_figures(const std::filesystem::path& run);

}  // namespace coldframe::temporal
