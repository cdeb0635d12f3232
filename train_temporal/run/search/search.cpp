#include "train_temporal/run/search/search.h"

#include "common/cli/log.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/training/validation_figure.h"

namespace coldframe::temporal {
namespace {

// The choice of the process that leads, which alone has the records.
std::vector<std::size_t> choose(const std::vector<FinishedFit>& tried,
                                const Experiment& experiment) {
  const std::size_t settings = experiment.settings.size();
  std::vector<std::size_t> chosen;
  for (std::size_t split = 0; split < experiment.splits.size(); ++split) {
    double best = 0;
    if (experiment.leads()) {
      best = static_cast<double>(best_of(std::span(tried).subspan(split * settings, settings)));
    }
    if (experiment.group != nullptr) best = experiment.group->sum(best);
    chosen.push_back(static_cast<std::size_t>(best));
  }
  return chosen;
}

}  // namespace

SearchResult search_settings(const Experiment& experiment, const RunFolder* folder) {
  SearchResult result;
  const std::size_t settings = experiment.settings.size();
  if (settings < 2) return result;
  for (const Split& split : experiment.splits) {
    for (std::size_t setting = 0; setting < settings; ++setting) {
      result.tried.push_back(
          {{experiment.options.model, split.repeat, split.fold, 0, setting}, &split, {}});
    }
  }
  run_fits(experiment, folder, "search", result.tried);
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

std::string search_csv(const SearchResult& result, const Experiment& experiment) {
  std::string csv = csv_row({"repeat", "fold", "setting", "hidden", "temporal_pool", "dropout",
                             "noise", "lr", "weight_decay", "epochs", "best_epoch",
                             "validation_loss", "validation_metric", "chosen"});
  for (std::size_t i = 0; i < result.tried.size(); ++i) {
    const auto& [name, split, record] = result.tried[i];
    const Setting& setting = experiment.settings[name.setting];
    const auto figure = validation_figure(experiment.targets, *split, record.validation_logits);
    const bool chosen = result.chosen[i / experiment.settings.size()] == name.setting;
    csv += csv_row({concat(name.repeat), concat(name.fold), concat(name.setting),
                    concat(setting.hidden), word_of(setting.pool), exact(setting.dropout),
                    exact(setting.noise), exact(setting.learning_rate), exact(setting.weight_decay),
                    concat(record.history.size()), concat(record.best_epoch),
                    exact(record.history[record.best_epoch].validation),
                    figure ? exact(*figure) : "", chosen ? "1" : "0"});
  }
  return csv;
}

}  // namespace coldframe::temporal
