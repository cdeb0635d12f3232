#include "train_temporal/run/sets.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/text/text.h"

namespace coldframe::temporal {

namespace {

using FoldOfRepeat = std::pair<std::size_t, std::size_t>;  // repeat, fold

struct HeldOutScores {
  std::vector<FoldOfRepeat> folds;
  std::vector<std::vector<HeldOutScore>> of;  // each target
};

HeldOutScores scores_in_run(const std::filesystem::path& run, const std::vector<Target>& targets) {
  const PredictionTable table = read_predictions(run / kPredictions, targets);
  HeldOutScores scores;
  for (std::size_t t = 0; t < targets.size(); ++t) {
    const std::vector<FoldScores> folds = labelled_folds(table, t);
    scores.of.push_back(held_out_scores(folds));
    if (t > 0) continue;
    for (const FoldScores& fold : folds) scores.folds.emplace_back(fold.repeat, fold.fold);
  }
  return scores;
}

HeldOutScores scores_in_bundle(const std::filesystem::path& bundle,
                               const std::vector<Target>& targets) {
  const CsvTable file = read_csv(bundle / kHeldOutScores);
  HeldOutScores scores;
  scores.of.resize(targets.size());
  std::map<FoldOfRepeat, std::size_t> folds;
  for (std::size_t row = 0; row < file.rows.size(); ++row) {
    const auto field = [&](const char* name) { return file.rows[row][file.require_column(name)]; };
    const auto number = [&](const char* name) {
      std::int64_t value = -1;
      if (parse_int(field(name), value) && value >= 0) return static_cast<std::size_t>(value);
      throw DataError(concat(file.name, " line ", file.lines[row], ": column '", name, "' has '",
                             field(name), "'; expected a whole number"));
    };
    const std::size_t target = number("target"), of_class = number("class");
    double score = 0;
    if (target >= targets.size() ||
        of_class >= std::max<std::size_t>(targets[target].classes.size(), 1) ||
        !parse_double(field("score"), score))
      throw DataError(concat(file.name, " line ", file.lines[row],
                             " is no score of a target and a class of the models"));
    const auto [fold, is_new] =
        folds.emplace(FoldOfRepeat{number("repeat"), number("fold")}, folds.size());
    if (is_new) scores.folds.push_back(fold->first);
    scores.of[target].push_back({fold->second, number("patient"), of_class, score});
  }
  return scores;
}

bool is_untimed(const Target& target) {
  return !target.is_timed();
}

void require_enough(const ConformalSets& sets, const Target& target, double level) {
  const auto lacking = sets.too_few();
  if (!lacking) return;
  const auto n = static_cast<double>(lacking->patients);
  const bool classes = target.has_classes();
  throw ConfigError(
      concat("--sets ", exact(level), " needs ", plural(lacking->needed, "patient"),
             classes ? " of each class" : "", " with held-out predictions, and ",
             classes ? concat("'", target.classes[lacking->of_class], "' of ") : "", "'",
             target.name, "' has ", lacking->patients,
             lacking->patients == 0
                 ? "; leave it out"
                 : concat("; ask for at most ", exact(std::floor(1000 * n / (n + 1) + 1e-9) / 1000),
                          ", or leave it out")));
}

}  // namespace

std::string held_out_scores_csv(const std::filesystem::path& run,
                                const std::vector<Target>& targets) {
  if (!std::ranges::all_of(targets, is_untimed)) return "";
  const HeldOutScores scores = scores_in_run(run, targets);
  std::string csv = csv_row({"target", "repeat", "fold", "patient", "class", "score"});
  for (std::size_t t = 0; t < targets.size(); ++t)
    for (const HeldOutScore& one : scores.of[t]) {
      const auto& [repeat, fold] = scores.folds[one.fold];
      csv += csv_row({concat(t), concat(repeat), concat(fold), concat(one.patient),
                      concat(one.of_class), exact(one.score)});
    }
  return csv;
}

Sets::Sets(const std::filesystem::path& folder, Ensemble& ensemble, double level) {
  const std::vector<Target>& targets = ensemble.targets();
  for (const Target& target : targets)
    if (target.is_timed())
      throw ConfigError(concat("--sets: '", target.name,
                               "' is a time to an event, which has no sets; leave it out"));
  const bool in_bundle = std::filesystem::exists(folder / kHeldOutScores);
  if (!in_bundle && !std::filesystem::exists(folder / kPredictions))
    throw ConfigError(concat("--sets: '", folder.string(), "' has neither ", kHeldOutScores,
                             " nor ", kPredictions,
                             "; make the bundle again of its run, with this version"));
  const HeldOutScores scores =
      in_bundle ? scores_in_bundle(folder, targets) : scores_in_run(folder, targets);
  for (std::size_t t = 0; t < targets.size(); ++t) {
    of_.emplace_back(scores.of[t], targets[t].classes.size(), level);
    require_enough(of_.back(), targets[t], level);
  }
  for (const auto& [repeat, fold] : scores.folds) {
    std::vector<std::size_t>& models = models_.emplace_back();
    for (std::size_t m = 0; m < ensemble.size(); ++m) {
      const ModelMetadata& card = ensemble.models()[m].card;
      if (card.repeat == repeat && card.fold == fold) models.push_back(m);
    }
    if (models.empty())
      throw DataError(concat("'", folder.string(), "' has no model of repeat ", repeat, ", fold ",
                             fold, ", whose predictions --sets rests on; take the whole run"));
  }
}

namespace {

using ScoresOfModels = std::vector<std::vector<double>>;

ScoresOfModels means_by_fold(const ScoresOfModels& scores,
                             const std::vector<std::vector<std::size_t>>& models) {
  ScoresOfModels means;
  for (const std::vector<std::size_t>& of_fold : models) {
    ScoresOfModels seeds;
    for (const std::size_t m : of_fold) seeds.push_back(scores[m]);
    means.push_back(mean_scores(seeds));
  }
  return means;
}

std::vector<PredictionTable::Column> set_columns(const Target& target, bool alone) {
  const std::vector<std::string> numbers = {"low", "high"};
  std::vector<PredictionTable::Column> columns;
  for (const std::string& name : target.has_classes() ? target.classes : numbers)
    columns.push_back({concat(alone ? "" : target.name + ":", "set_", name), {}});
  return columns;
}

}  // namespace

void Sets::add_to(PredictionTable& table,
                  const std::vector<std::vector<std::vector<double>>>& scores) const {
  for (std::size_t t = 0; t < of_.size(); ++t) {
    const Target& target = table.targets[t];
    const ScoresOfModels by_fold = means_by_fold(scores[t], models_);
    std::vector<PredictionTable::Column> columns = set_columns(target, of_.size() == 1);
    std::vector<double> of_folds(by_fold.size());
    for (std::size_t at = 0; at < by_fold.front().size(); ++at) {  // rows by scores of a row
      for (std::size_t f = 0; f < by_fold.size(); ++f)
        of_folds[f] = target.has_classes() ? 1 - by_fold[f][at] : by_fold[f][at];
      if (target.has_classes()) {
        const std::size_t c = at % target.scores();
        columns[c].values.push_back(of_[t].holds(c, of_folds) ? 1 : 0);
      } else {
        const auto [low, high] = of_[t].interval(of_folds);
        columns[0].values.push_back(low);
        columns[1].values.push_back(high);
      }
    }
    table.more.insert(table.more.end(), columns.begin(), columns.end());
  }
}

}  // namespace coldframe::temporal
