// `coldframe evaluate`: a run's models on another labelled cohort, or beside another run.
#include <algorithm>
#include <array>
#include <iostream>
#include <optional>
#include <set>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/files/publish/scratch_folder.h"
#include "common/text/text.h"
#include "train_temporal/bundle/bundle.h"
#include "train_temporal/commands/commands.h"
#include "train_temporal/commands/predict.h"
#include "train_temporal/commands/run_files.h"
#include "train_temporal/models/model_config.h"
#include "train_temporal/models/summary_model.h"
#include "train_temporal/report/report_files.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/covariates.h"
#include "train_temporal/run/ensemble.h"
#include "train_temporal/run/exam_checks.h"
#include "train_temporal/run/results.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/run/unlike_training.h"

namespace coldframe::temporal {
namespace {

namespace fs = std::filesystem;

constexpr std::array kResultFiles = {kPredictions, "report.html", "summary.json"};

// "middle", or "best" where the fits have chosen different ones; empty for other models.
std::string frame_of(Ensemble& ensemble) {
  std::set<FrameOrder> orders;
  for (const TrainedModel& fit : ensemble.models()) orders.insert(fit.card.config.order);
  if (!is_one_frame(*orders.begin())) return {};
  return orders.size() > 1 ? kBestFrame : word_for(single_frames(), *orders.begin());
}

// Of each fit the summaries of the frames that it takes for a target, or kNoFamily.
std::vector<std::string> families_of(Ensemble& ensemble, std::size_t target) {
  const auto output = static_cast<std::int64_t>(first_output(ensemble.targets(), target));
  std::vector<std::string> families;
  for (const TrainedModel& fit : ensemble.models()) {
    const auto buffers = fit.model->named_buffers();
    const torch::Tensor* family = buffers.find("family");  // [C]
    families.push_back(family == nullptr
                           ? kNoFamily
                           : family_name(static_cast<Family>((*family)[output].item<float>())));
  }
  return families;
}

// "gru", or the kinds that a search took, "gru/lstm": what fits take that are no summaries.
std::string sequence_model_of(Ensemble& ensemble) {
  std::set<std::string> kinds;
  for (const TrainedModel& fit : ensemble.models())
    if (fit.card.config.architecture->by_steps) kinds.insert(model_name(fit.card.config));
  return kinds.empty() ? kGru.name : join({kinds.begin(), kinds.end()}, "/");
}

// A model's results on the cohort: the average of its fits decides on each exam.
ModelPredictions apply(Ensemble& ensemble, const std::string& name, const Dataset& dataset,
                       const Cohort& cohort, const ResolvedQuestions& asked) {
  ModelPredictions model{name,
                         frame_of(ensemble),
                         name == kAutoModel ? sequence_model_of(ensemble) : "",
                         table_of(cohort),
                         {},
                         {},
                         {}};
  const std::vector<std::size_t> exams = cohort.labeled();
  add_rows(model.held_out, cohort.exams(), exams, &cohort.targets);
  auto scores = ensemble.scores(dataset, exams);
  auto& readouts = model.readouts.emplace_back();
  for (std::size_t t = 0; t < scores.size(); ++t) {
    readouts.push_back({{}, families_of(ensemble, t)});
    add_scores(model.held_out, t, mean_scores(scores[t]),
               asked.questions.threshold.value_or(ensemble.threshold(t)));
  }
  if (ensemble.size() > 1) model.fits = std::move(scores);
  return model;
}

// As the training named the main model: all fits of `auto` may be summaries, and those of a search
// of several kinds.
std::string own_name(const fs::path& run, const Ensemble& main) {
  const std::string usual = model_name(main.card().config);
  if (fs::exists(run / "summary.json"))
    return main_model_of(read_json_file(run / "summary.json")).at("name");
  const Json facts = fs::exists(run / bundle::kFactsFile) ? read_json_file(run / bundle::kFactsFile)
                                                          : Json::object();
  return facts.value("/training/model"_json_pointer, usual);
}

// The main model, then the controls that the run has kept.
std::vector<ModelPredictions> examine(const fs::path& run, Ensemble& main, const Cohort& cohort,
                                      const Dataset& dataset, const ResolvedQuestions& asked) {
  const std::string own = own_name(run, main);
  std::vector<ModelPredictions> all = {apply(main, own, dataset, cohort, asked)};
  for (const auto& [name, files] : control_files(run)) {
    Ensemble control(files, main.labels());
    control.take_horizons(main.targets());
    if (control.targets() != main.targets()) {
      throw DataError(concat("the control '", name, "' of '", run.string(),
                             "' has other targets than its main model; they must come from one "
                             "training"));
    }
    control.take_covariates(cohort.cache, cohort.labeled());
    all.push_back(apply(control, name, dataset, cohort, asked));
  }
  return all;
}

std::string name_of(const fs::path& run) {
  return concat("run ", (run.has_filename() ? run : run.parent_path()).filename().string());
}

// The main model of the run to compare with, and a warning where it knows these exams.
ModelPredictions examine_other(const ApplyOptions& options, const Ensemble& main, Cohort& cohort,
                               const ResolvedQuestions& asked, const torch::Device& device) {
  Ensemble other(model_files(options.against), main.labels());
  require_same_question(main.targets(), "this run", other.targets(),
                        concat("--against '", options.against.string(), "'"));
  other.take_horizons(main.targets());
  if (other.card().arrangement != main.card().arrangement)
    throw ConfigError(
        concat("--against '", options.against.string(),
               "' was trained with other --streams or --visits than this run; compare what both "
               "held out, without --cache"));
  other.require_same_features(cohort.cache, options.data.cache);
  const auto patients = options.data.exam_is_patient ? std::vector<std::string>() : cohort.patients;
  const std::size_t known = options.other_patients ? 0
                                                   : count_known(options.against, cohort.exams(),
                                                                 patients, cohort.labeled());
  if (known > 0)
    cohort.warnings.push_back(
        warn_of_same_ids(known, "the run to compare with", "its figures are too good"));
  const Dataset dataset = other.load(cohort.cache, cohort.labeled(), device);
  return apply(other, name_of(options.against), dataset, cohort, asked);
}

RunReport report_on(const std::vector<ModelPredictions>& models, const Cohort& cohort,
                    const ResolvedQuestions& asked, const Ensemble& ensemble,
                    const ApplyOptions& options, Seen seen) {
  const auto used = cohort.labeled();
  RunFacts run;
  run.title = "Coldframe evaluation report";
  run.subtitle = options.out.filename().string();
  run.split = concat("all exams, by the average of ", plural(ensemble.size(), "model"));
  run.seen = seen;
  if (!options.against.empty()) run.against = name_of(options.against);
  run.tuned = ensemble.card().tuned.has_value();
  if (const CovariateEncoding& taken = ensemble.card().covariates; !taken.empty()) {
    run.covariates =
        covariate_facts(covariate_columns(taken, cohort.cache, used, ensemble.labels()), used);
    run.frame_covariates = ensemble.card().config.frame_covariates;
  }
  run.bootstrap = options.bootstrap;
  RunReport report = report_of(models, run, cohort, used, asked);
  KeyValues& facts = report.targets.front().configuration;
  const bool bundled = !options.bundle.empty();
  facts = {
      {bundled ? "bundle" : "run", (bundled ? options.bundle : options.run).filename().string()},
      {"models", std::to_string(ensemble.size())}};
  for (std::size_t t = 0; t < cohort.targets.size(); ++t) {
    if (!cohort.targets[t].has_threshold()) continue;
    const std::string of =
        cohort.targets.size() > 1 ? concat("threshold of ", cohort.targets[t].name) : "threshold";
    report.targets[t].applied_threshold = asked.questions.threshold.value_or(ensemble.threshold(t));
    facts.emplace_back(of, fixed(*report.targets[t].applied_threshold, 4));
  }
  facts.emplace_back("feature_digest", ensemble.card().recipe.feature_digest());
  return report;
}

// Says how far the cohort lies from the training's, where the run knows that.
void add_shift(TargetReport& report, const fs::path& run, const Cohort& cohort,
               const Dataset& dataset, const std::vector<Trait>& times) {
  const auto unlike = UnlikeTraining::read(run, cohort.cache.dimension());
  if (!unlike) return;
  const ExamTraits traits = traits_of(dataset, cohort.labeled());
  report.shift = cohort_shift(*unlike, traits);
  report.shift_rate = kUnlikeRate;
  const std::string warning = warn_of_unlike(unlike->judge_inputs(traits, times));
  if (warning.empty()) return;
  report.warnings.push_back(warning);
  log_warning(warning);
}

std::string warn_of_failures(const std::vector<cache::Failure>& failures) {
  constexpr std::size_t kNamed = 5;
  std::vector<std::string> named;
  for (const cache::Failure& failure : failures) {
    if (named.size() == kNamed) break;
    named.push_back(
        concat("'", failure.exam.empty() ? failure.source : failure.exam, "': ", failure.reason));
  }
  if (failures.size() > kNamed) named.push_back("…");
  return concat("exams or frames that could not be read, ", failures.size(),
                " in all, are not evaluated (", join(named, "; "), ")");
}

// Warns if the metrics may be too optimistic.
Seen seen_of(const Predictor& applied, Cohort& cohort, bool exam_is_patient) {
  const auto known = applied.count_known(
      cohort.exams(), exam_is_patient ? std::vector<std::string>() : cohort.patients,
      cohort.labeled());
  if (!known) {
    cohort.warnings.push_back(
        "a bundle names no exam of its training: if some of these took part in it, the figures are "
        "too good; if all are of other people, say so by --other-patients");
    return Seen::kUnknown;
  }
  if (*known == 0) return Seen::kNone;
  cohort.warnings.push_back(warn_of_same_ids(
      *known, "the run",
      "the figures are too good (see the run's own held-out predictions for them)"));
  return Seen::kSome;
}

// The first thing in `folder` that an evaluation does not write; empty: there is none.
fs::path foreign_in(const fs::path& folder) {
  if (!fs::is_directory(folder)) return folder;
  for (const fs::path& path : fs::directory_iterator(folder)) {
    const std::string name = path.filename().string();
    const bool figures = name == kFiguresFolder && fs::is_directory(path);
    if (figures && fs::exists(folder / "report.html")) {
      for (const fs::path& figure : fs::directory_iterator(path))
        if (!is_report_file(figure.filename().string())) return figure;
    } else if (std::ranges::find(kResultFiles, name) == kResultFiles.end()) {
      return path;
    }
  }
  return {};
}

void require_evaluation(const fs::path& folder) {
  const fs::path foreign = foreign_in(folder);
  if (foreign.empty()) return;
  throw ConfigError(concat("'", folder.string(), "' is not the folder of an evaluation: '",
                           foreign.string(), "' is none of its files; choose another --out"));
}

void require_replaceable(const fs::path& out, bool overwrite) {
  if (!fs::exists(out)) return;
  if (!overwrite)
    throw ConfigError(concat("--out '", out.string(), "' is there already; choose another name, ",
                             "or say --overwrite to replace it"));
  require_evaluation(out);
}

void write_results(const ApplyOptions& options, const RunReport& report, const Json& summary,
                   const std::string& predictions) {
  const fs::path out = folder_target(options.out);
  create_folders_durably(out.parent_path());
  const ScratchFolder scratch(out.parent_path());
  const fs::path working = scratch.path() / "results";
  create_folders_durably(working);
  const html::Page page = report_page(report);
  const std::string texts[] = {predictions, page.finish(), summary.dump(2) + "\n"};
  for (std::size_t i = 0; i < kResultFiles.size(); ++i) {
    if (!texts[i].empty()) write_file_atomically(working / kResultFiles[i], texts[i]);
  }
  if (options.questions.figures) write_figures(working, report, page);
  publish(working, out, existing_for(options.overwrite), require_evaluation);
}

// `predictions`: a CSV, or nothing where these are another folder's.
void finish(const RunReport& report, const Json& failures, const ApplyOptions& options,
            const std::string& predictions) {
  for (const TargetReport& target : report.targets) {
    for (const std::string& warning : data_warnings(target)) log_warning(warning);
  }
  Json summary = metrics_json(report);
  if (!failures.is_null()) summary["failures"] = failures;
  if (!options.out.empty()) write_results(options, report, summary, predictions);
  std::cout << (options.json ? summary.dump(2) + "\n" : summary_text(report));
}

int compare_runs(const ApplyOptions& options) {
  const RunReport report =
      compare_held_out(options.run, options.against, options.bootstrap, options.questions);
  for (const TargetReport& target : report.targets) {
    for (const std::string& warning : target.warnings) log_warning(warning);
  }
  finish(report, {}, options, {});
  return 0;
}

}  // namespace

int run_evaluate(const std::vector<std::string>& arguments) {
  ApplyOptions options;
  if (!parse_evaluate_options(arguments, options)) return 0;
  if (!options.out.has_filename()) options.out = options.out.parent_path();
  if (!options.out.empty()) require_replaceable(options.out, options.overwrite);
  if (options.data.cache.empty() && options.extraction.input.empty()) return compare_runs(options);
  Predictor applied(options);
  Ensemble& ensemble = applied.ensemble();
  options.data.cache = applied.features();
  options.data.arrangement = ensemble.card().arrangement;
  Cohort cohort = open_cohort(options.data, ensemble.targets());
  const ResolvedQuestions asked = ask(cohort, options.questions);
  ensemble.require_same_features(cohort.cache, options.data.cache);
  const Json failures = applied.raw() ? failures_json(cohort.cache) : Json::array();
  if (!failures.empty()) cohort.warnings.push_back(warn_of_failures(cohort.cache.failures()));
  const Seen seen = seen_of(applied, cohort, options.data.exam_is_patient);
  for (std::string said : {warn_of_lengths(ensemble.card(), cohort.exams(), cohort.labeled()),
                           warn_of_kinds(ensemble.card(), cohort.exams(), cohort.labeled())})
    if (!said.empty()) cohort.warnings.push_back(std::move(said));
  for (std::string& said : applied.warnings_of(cohort.cache, cohort.labeled()))
    cohort.warnings.push_back(std::move(said));
  const torch::Device device = applied.device_for(cohort.cache, cohort.labeled());
  std::optional<ModelPredictions> other;
  if (!options.against.empty()) other = examine_other(options, ensemble, cohort, asked, device);
  for (const std::string& warning : cohort.warnings) log_warning(warning);
  const Dataset dataset = ensemble.load(cohort.cache, cohort.labeled(), device);
  auto models = examine(applied.folder(), ensemble, cohort, dataset, asked);
  if (other) models.push_back(std::move(*other));

  RunReport report = report_on(models, cohort, asked, ensemble, options, seen);
  cache::Pictures pictures(cohort.cache,
                           options.questions.without_thumbnails ? 0 : cache::kMaxPictureBytes);
  show_held_out(models.front(), cohort, pictures, report.targets.front());
  add_shift(report.targets.front(), applied.folder(), cohort, dataset, times_shown_to(ensemble));
  finish(report, applied.raw() ? failures : Json(), options,
         options.out.empty() ? "" : to_csv(models.front().held_out));
  return static_cast<int>(failures.empty() ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

}  // namespace coldframe::temporal
