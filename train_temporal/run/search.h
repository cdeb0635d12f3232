// `--search`: every fold tries all settings on its own training part and takes the one that does
// best on its inner validation part. The test parts have no say (nested cross-validation).
#pragma once

#include <string>
#include <vector>

#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {

struct SearchResult {
  std::vector<FinishedFit> tried;   // by split, then setting
  std::vector<std::size_t> chosen;  // a setting for each split; of other parts': any
};

// Fits the main model, with its first seed, with every setting of `experiment` on every split. What
// is better is decided as early stopping does it; a setting whose loss is not finite in the first
// epoch is the worst. DataError where all are so. Resumes, and is stopped, as run_fits() is; fits
// with the chosen settings need not be repeated there. Nothing when there is one setting.
SearchResult search_settings(const Experiment& experiment, const RunFolder& folder);

// What the search costs, for the log.
std::string search_cost(const Experiment& experiment);

// As the report calls what the folds took: "gru", "gru/lstm"; without a search the main model.
std::string searched_kinds(const SearchResult& result, const Experiment& experiment);

// repeat,fold,setting, then the options that are drawn by name, then epochs,best_epoch,
// validation_loss,validation_metric,chosen
std::string search_csv(const SearchResult& result, const Experiment& experiment);

}  // namespace coldframe::temporal
