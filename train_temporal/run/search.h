// `--search` (nested cross-validation): every fold tries all settings on its training part and
// takes the best one on its inner validation part, independently of the test parts.
#pragma once

#include <string>
#include <vector>

#include "train_temporal/run/cross_validation.h"

namespace coldframe::temporal {

struct SearchResult {
  std::vector<FinishedFit> tried;   // by split, then setting
  std::vector<std::size_t> chosen;  // setting index of each split; arbitrary in other parts
};

// Fits the main model, with its first seed, with every setting of `experiment` on every split, and
// compares them by early stopping's criterion. A setting whose loss is not finite in the first
// epoch is the worst; DataError if all are so. Resumes and is interrupted like run_fits(), which
// reuses the fits with the chosen settings. Does nothing if there is a single setting.
SearchResult search_settings(const Experiment& experiment, const RunFolder& folder);

// The cost of the search, for the log.
std::string search_cost(const Experiment& experiment);

// The kinds of models that the folds chose, as in the report: "gru", "gru/lstm"; without a search,
// the main model.
std::string searched_kinds(const SearchResult& result, const Experiment& experiment);

// repeat,fold,setting, then the options that are drawn by name, then epochs,best_epoch,
// validation_loss,validation_metric,chosen
std::string search_csv(const SearchResult& result, const Experiment& experiment);

}  // namespace coldframe::temporal
