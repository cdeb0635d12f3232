// `coldframe predict`: probabilities for exams without labels.
#include <iostream>

#include "common/atomic_file.h"
#include "common/csv.h"
#include "common/error.h"
#include "common/exact.h"
#include "common/interrupt.h"
#include "common/log.h"
#include "common/progress.h"
#include "common/text.h"
#include "common/torch/device.h"
#include "train_temporal/cohort.h"
#include "train_temporal/commands.h"
#include "train_temporal/contributions.h"
#include "train_temporal/ensemble.h"
#include "train_temporal/results.h"

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

std::string predictions(const cache::CacheReader& cache, const std::vector<std::size_t>& exams,
                        const ModelCard& card, const std::vector<double>& probability,
                        double threshold) {
  const std::size_t classes = card.classes.size();
  const auto decision = decide(probability, classes, threshold);
  std::vector<std::string> header = {"exam", "patient"};
  for (const std::string& name : card.classes) header.push_back("p_" + name);
  header.push_back("predicted");
  std::string csv = csv_row(header);
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const cache::ExamInfo& exam = cache.exams()[exams[i]];
    std::vector<std::string> row = {exam.id, exam.patient};
    for (std::size_t c = 0; c < classes; ++c) row.push_back(exact(probability[i * classes + c]));
    row.push_back(card.classes[static_cast<std::size_t>(decision[i])]);
    csv += csv_row(row);
  }
  return csv;
}

Json summary_json(const Ensemble& ensemble, std::size_t exams, std::size_t left_out,
                  const std::filesystem::path& out) {
  Json json;
  json["exams"] = exams;
  json["left_out"] = left_out;
  json["models"] = ensemble.size();
  json["classes"] = ensemble.card().classes;
  json["threshold"] = ensemble.threshold();
  json["predictions"] = out.string();
  return json;
}

// The probability of the positive class of two, else of the class decided for.
std::vector<ExplainedExam> explain(Ensemble& ensemble, const cache::CacheReader& cache,
                                   const std::vector<std::size_t>& exams,
                                   const std::vector<int>& decision, const torch::Device& device) {
  const Dataset dataset = load_dataset(cache, exams, ensemble.card().source_kinds, device);
  const bool binary = ensemble.card().classes.size() == 2;
  std::vector<ExplainedExam> explained;
  Progress progress("explain", "exams", exams.size());
  for (std::size_t i = 0; i < exams.size(); ++i) {
    if (stop_requested()) throw Interrupted("stopped; run the same command again");
    const std::size_t of_class = binary ? 1 : static_cast<std::size_t>(decision[i]);
    explained.push_back(explain_exam(ensemble.models(), dataset, exams[i], of_class));
    progress.add();
  }
  return explained;
}

void require_free(const char* option, const std::filesystem::path& file, bool overwrite) {
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
  const torch::Device device = resolve_device(options.device);
  if (options.threads > 0) at::set_num_threads(static_cast<int>(options.threads));
  Ensemble ensemble(options.run);
  const cache::CacheReader cache(options.data.cache);
  require_same_features(ensemble.card().recipe, cache.recipe(), options.data.cache);
  const auto exams = exams_with_frames(cache);
  const auto probability = ensemble.probabilities(cache, exams, device);
  write_file_atomically(
      options.out, predictions(cache, exams, ensemble.card(), probability, ensemble.threshold()));
  std::vector<ExplainedExam> explained;
  if (!options.explain.empty()) {
    const auto decision = decide(probability, ensemble.card().classes.size(), ensemble.threshold());
    explained = explain(ensemble, cache, exams, decision, device);
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
