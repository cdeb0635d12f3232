#include "train_temporal/run/search.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/fit/objective.h"
#include "train_temporal/models/model_config.h"

namespace coldframe::temporal {

namespace {

bool diverged_at_once(const FinishedFit& fit) {
  return fit.record.history.empty();
}

std::vector<std::size_t> choose(const std::vector<FinishedFit>& tried,
                                const Experiment& experiment) {
  const std::size_t settings = experiment.settings.size();
  std::vector<std::size_t> chosen;
  std::size_t begin = 0;
  for (const Split& split : experiment.splits) {
    chosen.push_back(0);
    if (begin == tried.size() || tried[begin].split != &split) continue;  // another part's
    const auto fits = std::span(tried).subspan(begin, settings);
    chosen.back() = best_of(fits);
    if (diverged_at_once(fits[chosen.back()]))
      throw DataError(concat("no setting of --search: ", kDivergedAtOnce));
    begin += settings;
  }
  return chosen;
}

void warn_of_diverged(const std::vector<FinishedFit>& tried) {
  for (const FinishedFit& fit : tried) {
    if (!diverged_at_once(fit)) continue;
    log_warning(concat(fit.name.stem(),
                       ": the loss was not a finite number in the first epoch; "
                       "the setting counts as the worst"));
  }
}

std::string cell_of(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  return value.is_number_float() ? exact(value.get<double>()) : value.dump();
}

}  // namespace

SearchResult search_settings(const Experiment& experiment, const RunFolder& folder) {
  SearchResult result;
  const std::size_t settings = experiment.settings.size();
  if (settings < 2) return result;
  // A summary has no settings.
  const std::string frame = candidates(experiment, experiment.options.model).front();
  for (const Split& split : experiment.splits) {
    for (std::size_t setting = 0; setting < settings; ++setting) {
      result.tried.push_back(
          {{experiment.options.model, split.repeat, split.fold, 0, setting, frame}, &split, {}});
    }
  }
  std::erase_if(result.tried,
                [&](const FinishedFit& fit) { return !experiment.is_mine(fit.name); });
  run_fits(experiment, folder, "search", result.tried);
  warn_of_diverged(result.tried);
  result.chosen = choose(result.tried, experiment);
  return result;
}

std::string search_cost(const Experiment& experiment) {
  const std::size_t settings = experiment.settings.size(), splits = experiment.splits.size();
  return concat("search: ", settings, " settings on each of ", plural(splits, "fold"), " are ",
                plural(settings * splits, "fit"), ", of ", experiment.options.fit.epochs,
                " epochs at most; with the run's own there are ", plan_fits(experiment).fits,
                " (--benchmark says how long that takes)");
}

std::string searched_kinds(const SearchResult& result, const Experiment& experiment) {
  std::vector<std::string> taken, names;
  for (const std::size_t setting : result.chosen)
    taken.push_back(experiment.settings[setting].values.at("model").get<std::string>());
  for (const std::string& name : model_names())
    if (std::ranges::find(taken, name) != taken.end()) names.push_back(name);
  return names.empty() ? experiment.options.model : join(names, "/");
}

std::string search_csv(const SearchResult& result, const Experiment& experiment) {
  std::string csv;
  for (std::size_t i = 0; i < result.tried.size(); ++i) {
    const auto& [name, split, record] = result.tried[i];
    const auto figure = validation_figure(experiment.targets, *split, record.validation_logits);
    const bool chosen = result.chosen[i / experiment.settings.size()] == name.setting;
    std::vector<std::string> head = {"repeat", "fold", "setting"};
    std::vector<std::string> row = {concat(name.repeat), concat(name.fold), concat(name.setting)};
    for (const auto& [key, value] : experiment.settings[name.setting].values.items()) {
      head.push_back(key);
      row.push_back(cell_of(value));
    }
    const auto add = [&](const char* key, const std::string& value) {
      head.emplace_back(key);
      row.push_back(value);
    };
    const bool none = diverged_at_once(result.tried[i]);
    add("epochs", concat(record.history.size()));
    add("best_epoch", none ? "" : concat(record.best_epoch));
    add("validation_loss", none ? "" : exact(record.history[record.best_epoch].validation));
    add("validation_metric", none || !figure ? "" : exact(*figure));
    add("chosen", chosen ? "1" : "0");
    if (csv.empty()) csv = csv_row(head);
    csv += csv_row(row);
  }
  return csv;
}

}  // namespace coldframe::temporal
