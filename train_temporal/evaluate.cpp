// `coldframe evaluate`: a run's models on another labelled cohort.
#include <iostream>
#include <set>

#include "common/atomic_file.h"
#include "common/csv.h"
#include "common/error.h"
#include "common/log.h"
#include "common/text.h"
#include "common/torch/device.h"
#include "train_temporal/cohort.h"
#include "train_temporal/commands.h"
#include "train_temporal/ensemble.h"
#include "train_temporal/results.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

// The options that the run itself answers.
void fill_from_run(TargetOptions& data, const ModelCard& card) {
  if (data.target.empty()) data.target = card.target;
  if (data.positive.empty()) data.positive = card.positive;
}

// Figures on exams that a model was fitted on say nothing.
void warn_of_trained_exams(const fs::path& run, Cohort& cohort) {
  const CsvTable splits = read_csv(run / "splits.csv");
  const std::size_t exam = splits.require_column("exam");
  std::set<std::string> trained;
  for (const auto& row : splits.rows) trained.insert(row[exam]);
  std::size_t known = 0;
  for (std::size_t i : cohort.labeled()) known += trained.count(cohort.exams()[i].id);
  if (known == 0) return;
  cohort.warnings.push_back(concat(plural(known, "exam"),
                                   " of this cohort took part in the run's "
                                   "training: the figures are too good; see the run's own "
                                   "held-out predictions for them"));
}

RunReport report_of(const ModelFolds& folds, const Cohort& cohort, const Ensemble& ensemble,
                    const ApplyOptions& options) {
  RunReport report;
  report.title = "Coldframe evaluation report";
  report.subtitle = options.out.filename().string();
  report.target = options.data.target;
  report.classes = cohort.labels.classes;
  report.split = concat("all exams, by the average of ", plural(ensemble.size(), "model"));
  report.data = overview(cohort);
  report.warnings = cohort.warnings;
  report.bootstrap.resamples = options.resamples;
  report.bootstrap.seed = options.seed;
  report.models = {to_result(folds, cohort)};
  evaluate_models(report.models, report.bootstrap);
  report.configuration = {{"run", options.run.filename().string()},
                          {"models", std::to_string(ensemble.size())},
                          {"threshold", fixed(ensemble.threshold(), 4)},
                          {"feature_digest", ensemble.card().recipe.feature_digest()}};
  return report;
}

void write_results(const fs::path& out, const RunReport& report, const std::string& predictions) {
  std::error_code error;
  fs::create_directories(out, error);
  if (error) throw SystemError(concat("cannot create '", out.string(), "': ", error.message()));
  write_file_atomically(out / "predictions.csv", predictions);
  write_file_atomically(out / "report.html", render_report(report));
  write_file_atomically(out / "summary.json", metrics_json(report).dump(2) + "\n");
}

std::string model_name(const ModelConfig& config) {
  if (config.architecture == Architecture::kClock) return "clock";
  if (config.order == FrameOrder::kMiddle) return "single";
  if (config.order == FrameOrder::kShuffled) return "shuffled";
  return config.architecture == Architecture::kGru ? "gru" : "mean";
}

}  // namespace

int run_evaluate(const std::vector<std::string>& arguments) {
  ApplyOptions options;
  if (!parse_evaluate_options(arguments, options)) return 0;
  if (!options.out.empty() && fs::exists(options.out) && !options.overwrite) {
    throw ConfigError(concat("--out '", options.out.string(),
                             "' exists; choose another name, or --overwrite to replace its files"));
  }
  const torch::Device device = resolve_device(options.device);
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  Ensemble ensemble(options.run);
  fill_from_run(options.data, ensemble.card());
  Cohort cohort = open_cohort(options.data, ensemble.card().classes);
  require_same_features(ensemble.card().recipe, cohort.cache.recipe(), options.data.cache);
  warn_of_trained_exams(options.run, cohort);
  for (const std::string& warning : cohort.warnings) log_warning(warning);

  Split split;
  split.test = cohort.labeled();
  FoldResult fold{&split, {}, ensemble.threshold(), {}};
  fold.exams.classes = cohort.labels.classes.size();
  fold.exams.probability = ensemble.probabilities(cohort.cache, split.test, device);
  for (std::size_t exam : split.test) fold.exams.label.push_back(cohort.labels.value[exam]);
  fold.exams.decision = decide(fold.exams.probability, fold.exams.classes, fold.threshold);
  const ModelFolds folds{model_name(ensemble.card().config), {fold}};

  const RunReport report = report_of(folds, cohort, ensemble, options);
  if (!options.out.empty()) write_results(options.out, report, predictions_csv(folds, cohort));
  std::cout << (options.json ? metrics_json(report).dump(2) + "\n" : summary_text(report));
  return static_cast<int>(ExitCode::kDone);
}

}  // namespace coldframe::temporal
