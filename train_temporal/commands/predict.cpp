// `coldframe predict`: probabilities, or numbers, for exams without labels.
#include <iostream>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/cli/progress.h"
#include "common/files/atomic_file.h"
#include "common/files/csv.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "train_temporal/commands/commands.h"
#include "train_temporal/explain/contributions.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/ensemble.h"
#include "train_temporal/run/known_exams.h"
#include "train_temporal/run/predictions.h"
#include "train_temporal/run/run_folder.h"

namespace coldframe::temporal {
namespace {

std::vector<std::size_t> exams_with_frames(const cache::CacheReader& cache) {
  std::vector<std::size_t> exams;
  for (std::size_t i = 0; i < cache.exams().size(); ++i) {
    if (present_frames(cache.exams()[i]) > 0) exams.push_back(i);
  }
  if (exams.empty()) throw DataError("the cache has no exam with a readable frame");
  return exams;
}

std::vector<std::vector<int>> decisions(const Ensemble& ensemble,
                                        const std::vector<std::vector<double>>& scores) {
  std::vector<std::vector<int>> decision;
  for (std::size_t t = 0; t < ensemble.targets().size(); ++t) {
    decision.push_back(decide(ensemble.targets()[t], scores[t], ensemble.threshold(t)));
  }
  return decision;
}

std::string predictions(const cache::CacheReader& cache, const std::vector<std::size_t>& exams,
                        const Ensemble& ensemble, const std::vector<std::vector<double>>& scores) {
  const std::vector<Target>& targets = ensemble.targets();
  const auto decision = decisions(ensemble, scores);
  std::vector<std::string> header = {"exam", "patient"};
  if (ensemble.per_frame()) header.push_back("frame");
  add_header(header, targets, WithLabels::kNo);
  std::string csv = csv_row(header);
  std::size_t next = 0;
  for (std::size_t index : exams) {
    const cache::ExamInfo& exam = cache.exams()[index];
    const std::vector<std::size_t> slots = present_slots(exam);
    for (std::size_t i = 0; i < (ensemble.per_frame() ? slots.size() : 1); ++i, ++next) {
      std::vector<std::string> row = {exam.id, exam.patient};
      if (ensemble.per_frame()) row.push_back(concat(slots[i]));
      for (std::size_t t = 0; t < targets.size(); ++t) {
        const std::size_t width = targets[t].scores();
        add_prediction(row, targets[t], std::span(scores[t]).subspan(next * width, width),
                       decision[t][next]);
      }
      csv += csv_row(row);
    }
  }
  return csv;
}

Json summary_json(const Ensemble& ensemble, std::size_t exams, std::size_t left_out,
                  const std::filesystem::path& out) {
  Json json;
  json["exams"] = exams;
  json["left_out"] = left_out;
  json["models"] = ensemble.size();
  json["targets"] = Json::array();
  for (std::size_t t = 0; t < ensemble.targets().size(); ++t) {
    const Target& target = ensemble.targets()[t];
    Json entry = {{"name", target.name}, {"task", task_name(target.task)}};
    if (target.has_classes()) entry["classes"] = target.classes;
    if (target.binary()) entry["threshold"] = ensemble.threshold(t);
    json["targets"].push_back(entry);
  }
  json["predictions"] = out.string();
  return json;
}

// Every exam, and for each of its targets.
std::vector<ExplainedExam> explain(Ensemble& ensemble, const cache::CacheReader& cache,
                                   const std::vector<std::size_t>& exams,
                                   const std::vector<std::vector<double>>& scores,
                                   const torch::Device& device) {
  const Dataset dataset = ensemble.load(cache, exams, device);
  const std::vector<Target>& targets = ensemble.targets();
  const auto decision = decisions(ensemble, scores);
  std::vector<ExplainedExam> explained;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    for (std::size_t t = 0; t < targets.size(); ++t)
      explained.push_back({exams[i], t, explained_class(targets[t], decision[t][i])});
  }
  Progress progress("explain", "exams by models", explained.size() * ensemble.size());
  explain_exams(ensemble.models(), dataset, explained, [&] {
    if (stop_requested()) throw Interrupted("stopped; run the same command again");
    progress.add();
  });
  return explained;
}

void warn_of_use(const std::filesystem::path& run, const ModelCard& card,
                 const cache::CacheReader& cache, const std::vector<std::size_t>& exams) {
  std::vector<std::string> patients;
  for (const cache::ExamInfo& exam : cache.exams()) patients.push_back(exam.patient);
  if (const std::size_t known = count_known(run, cache.exams(), patients, exams); known > 0) {
    log_warning(concat(plural(known, "exam"),
                       " of this cache, or others of the same patients, took part in the run's "
                       "training: predictions of them look better than the model is; see the run's "
                       "own held-out predictions for them"));
  }
  const std::string lengths = warn_of_lengths(card, cache.exams(), exams);
  if (!lengths.empty()) log_warning(lengths);
}

std::filesystem::path place_of(const std::filesystem::path& file) {
  return std::filesystem::weakly_canonical(std::filesystem::absolute(file));
}

void require_free(const char* option, const std::filesystem::path& file, bool overwrite) {
  const std::filesystem::path folder = file.parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder)) {
    throw ConfigError(concat("--", option, " '", file.string(), "': there is no folder '",
                             folder.string(), "'; make it, or choose another name"));
  }
  if (file.empty() || overwrite || !std::filesystem::exists(file)) return;
  throw ConfigError(concat("--", option, " '", file.string(),
                           "' exists; choose another name, or --overwrite to replace it"));
}

}  // namespace

int run_predict(const std::vector<std::string>& arguments) {
  ApplyOptions options;
  if (!parse_predict_options(arguments, options)) return 0;
  require_free("out", options.out, options.overwrite);
  require_free("explain", options.explain, options.overwrite);
  if (!options.explain.empty() && place_of(options.explain) == place_of(options.out)) {
    throw ConfigError("--explain and --out name the same file; give each its own");
  }
  const torch::Device device = resolve_device(options.device);
  if (options.threads > 0) set_torch_threads(static_cast<int>(options.threads));
  Ensemble ensemble(model_files(options.run));
  const cache::CacheReader cache(options.data.cache);
  if (!options.explain.empty() && !can_be_explained(ensemble.targets())) {
    throw ConfigError(concat("--explain tells what frames add to the one output of an exam, but '",
                             ensemble.targets().front().name,
                             "' has a value per frame; leave it out"));
  }
  ensemble.require_same_features(cache, options.data.cache);
  const auto exams = exams_with_frames(cache);
  warn_of_use(options.run, ensemble.card(), cache, exams);
  const auto scores = ensemble.scores(cache, exams, device);
  write_file_atomically(options.out, predictions(cache, exams, ensemble, scores));
  std::vector<ExplainedExam> explained;
  if (!options.explain.empty()) {
    explained = explain(ensemble, cache, exams, scores, device);
    write_file_atomically(options.explain, contributions_csv(cache, ensemble.card(), explained));
  }
  const std::size_t left_out = cache.exams().size() - exams.size();
  if (left_out > 0) {
    log_warning(concat(plural(left_out, "exam"), " without any readable frame left out"));
  }
  if (options.json) {
    Json json = summary_json(ensemble, exams.size(), left_out, options.out);
    if (!explained.empty()) {
      json["contributions"] = {{"file", options.explain.string()},
                               {"largest_gap", largest_gap(explained)},
                               {"tolerance", kCompleteness}};
    }
    std::cout << json.dump(2) << "\n";
  } else {
    std::cout << concat(plural(exams.size(), "exam"), " predicted by ",
                        plural(ensemble.size(), "model"), ": ", options.out.string(), "\n");
    if (!explained.empty()) {
      std::cout << concat(options.explain.string(), ": ", completeness_text(explained), "\n");
    }
  }
  return static_cast<int>(left_out > 0 ? ExitCode::kDoneWithFindings : ExitCode::kDone);
}

}  // namespace coldframe::temporal
