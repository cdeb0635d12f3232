#include "train_temporal/run/options/bounds.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/training/objective/mixup.h"

namespace coldframe::temporal {
namespace {

void require(bool fine, const char* option, const char* expected) {
  if (!fine) throw ConfigError(concat("--", option, ": expected ", expected));
}

void check_threads(std::size_t threads) {
  require(threads <= 1024, "threads", "at most 1024");
}

void check_resamples(std::size_t resamples) {
  require(resamples >= 1 && resamples <= 1000000, "bootstrap", "1 to 1000000");
}

bool all_differ(std::vector<std::string> names) {
  std::ranges::sort(names);
  return std::ranges::adjacent_find(names) == names.end();
}

void check_questions(const Questions& asked) {
  const auto is_share = [](const std::optional<double>& value) {
    return !value || (*value > 0 && *value < 1);
  };
  const char* expected = "a number between 0 and 1";
  require(is_share(asked.threshold), "threshold", expected);
  // Nearer to 0 or 1 odds overflow.
  const bool has_odds =
      !asked.prevalence || (*asked.prevalence >= 1e-9 && *asked.prevalence <= 1 - 1e-9);
  require(has_odds, "prevalence", "a number between 0 and 1, no nearer to them than 1e-9");
  require(is_share(asked.at_specificity), "at-specificity", expected);
  require(is_share(asked.at_sensitivity), "at-sensitivity", expected);
  require(all_differ(asked.subgroups), "subgroups", "each column once");
  require(all_differ(asked.characteristics), "characteristics", "each column once");
}

void check_numbers(const TrainOptions& options) {
  const FitOptions& fit = options.fit;
  const ModelConfig& model = options.architecture;
  require(options.folds <= 1000, "folds", "at most 1000");
  require(options.repeats >= 1 && options.repeats <= 1000, "repeats", "1 to 1000");
  require(options.seeds >= 1 && options.seeds <= 1000, "seeds", "1 to 1000");
  require(model.hidden >= 1 && model.hidden <= 8192, "hidden", "1 to 8192");
  require(options.layers >= 0 && options.layers <= 16, "layers", "0 (the model's own) to 16");
  require(model.dropout >= 0 && model.dropout < 1, "dropout", "0 or more and less than 1");
  check_threads(options.threads);
  require(fit.epochs >= 1 && fit.epochs <= 1000000, "epochs", "1 to 1000000");
  require(fit.batch >= 1, "batch", "1 or more");
  require(fit.learning_rate > 0, "lr", "more than 0");
  require(fit.weight_decay >= 0, "weight-decay", "0 or more");
  require(fit.clip >= 0, "clip", "0 or more");
  require(options.search <= 1000 && options.search != 1, "search", "0, or 2 to 1000");
  require(fit.noise >= 0 && fit.noise <= 100, "noise", "0 to 100");
  require(fit.mixup == 0 || (fit.mixup >= kLeastMixup && fit.mixup <= kMostMixup), "mixup",
          "0, or 0.01 to 4");
  require(fit.objective.label_smoothing >= 0 && fit.objective.label_smoothing < 1,
          "label-smoothing", "0 or more and less than 1");
  require(fit.train_frames >= 0, "train-frames", "0 or more");
  check_resamples(options.resamples);
}

void check_splits(const TrainOptions& options) {
  const bool each = options.each_patient || options.each_group;
  const int ways = (options.folds > 0) + each + options.split_column + !options.splits.empty();
  if (ways > 1) {
    throw ConfigError("--folds, --split-column and --splits exclude each other; give one");
  }
  if (options.repeats > 1 && each) {
    throw ConfigError(concat("--folds ", options.each_group ? "groups" : "patients",
                             " can be divided in one way only; leave --repeats out"));
  }
  if (options.each_group && options.group.empty())
    throw ConfigError("--folds groups needs --group COLUMN, each value of which is held out once");
  if (!options.group.empty() && options.each_patient)
    throw ConfigError("--folds patients divides by patient; with --group give --folds groups or N");
  if (!options.group.empty() && (options.split_column || !options.splits.empty()))
    throw ConfigError("--group divides anew; it needs --folds, not a given split");
  if (options.repeats > 1 && (options.split_column || !options.splits.empty())) {
    throw ConfigError("--repeats divides anew; it needs --folds, not a given split");
  }
}

}  // namespace

void check_bounds(const TrainOptions& options) {
  check_numbers(options);
  check_questions(options.questions);
  check_splits(options);
  check_tune(options);
}

void check_bounds(const ApplyOptions& options) {
  check_threads(options.threads);
  check_resamples(options.resamples);
  check_questions(options.questions);
}

}  // namespace coldframe::temporal
