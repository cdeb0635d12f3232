#include "train_temporal/run/sets.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
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

void Sets::add_to(PredictionTable& table,
                  const std::vector<std::vector<std::vector<double>>>& scores) const {
  for (std::size_t t = 0; t < of_.size(); ++t) {
    const Target& target = table.targets[t];
    std::vector<std::vector<double>> by_fold;  // [fold][rows, width]
    for (const std::vector<std::size_t>& models : models_) {
      std::vector<std::vector<double>> seeds;
      for (const std::size_t m : models) seeds.push_back(scores[t][m]);
      by_fold.push_back(mean_scores(seeds));
    }
    std::vector<PredictionTable::Column> columns;
    const std::string prefix = table.targets.size() > 1 ? target.name + ":set_" : "set_";
    for (const std::string& name : target.classes) columns.push_back({prefix + name, {}});
    if (!target.has_classes()) columns = {{prefix + "low", {}}, {prefix + "high", {}}};
    std::vector<double> of_row(by_fold.size());
    const auto read = [&](std::size_t at) {
      for (std::size_t f = 0; f < by_fold.size(); ++f) of_row[f] = by_fold[f][at];
    };
    for (std::size_t row = 0; row < table.rows.size(); ++row) {
      if (!target.has_classes()) {
        read(row);
        const auto [low, high] = of_[t].interval(of_row);
        columns[0].values.push_back(low);
        columns[1].values.push_back(high);
      }
      for (std::size_t c = 0; c < target.classes.size(); ++c) {
        read(row * target.scores() + c);
        for (double& probability : of_row) probability = 1 - probability;
        columns[c].values.push_back(of_[t].holds(c, of_row) ? 1 : 0);
      }
    }
    table.more.insert(table.more.end(), columns.begin(), columns.end());
  }
}

}  // namespace coldframe::temporal
