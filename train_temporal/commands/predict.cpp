#include "train_temporal/commands/predict.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <functional>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/cli/progress.h"
#include "common/files/csv.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/files/publish/scratch_folder.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "train_temporal/commands/commands.h"
#include "train_temporal/explain/contributions.h"
#include "train_temporal/explain/maps.h"
#include "train_temporal/labels/task_kind.h"
#include "train_temporal/run/cohort.h"
#include "train_temporal/run/devices.h"
#include "train_temporal/run/exam_checks.h"
#include "train_temporal/run/named_caches.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/run/sets.h"
#include "train_temporal/run/unlike_training.h"

namespace coldframe::temporal {

namespace {

std::optional<bundle::Bundle> bundle_of(const ApplyOptions& options) {
  if (options.bundle.empty()) return std::nullopt;
  return bundle::Bundle(options.bundle);
}

std::optional<bundle::RawExams> raw_exams_of(const std::optional<bundle::Bundle>& bundle,
                                             const ApplyOptions& options) {
  if (options.extraction.input.empty()) return std::nullopt;
  return bundle::RawExams(*bundle, options.extraction);
}

torch::Device resolved(const ApplyOptions& options) {
  const torch::Device device = resolve_device(options.device);
  if (options.threads > 0) set_torch_threads(static_cast<int>(options.threads));
  return device;
}

}  // namespace

Predictor::Predictor(const ApplyOptions& options)
    : bundle_(bundle_of(options)),
      folder_(bundle_ ? bundle_->folder() : options.run),
      other_patients_(options.other_patients),
      without_times_(options.without_times),
      raw_(raw_exams_of(bundle_, options)),
      device_(resolved(options)),
      ensemble_(model_files(folder_), options.data.labels),
      cache_(options.data.cache) {
  ensemble_.set_horizons(options.data.horizons);
  const bool explains = !options.explain.empty() || !options.maps.empty();
  tries_devices_ = options.device == "auto" && device_.is_cuda() && !explains;
}

const torch::Device& Predictor::device_for(const SequenceReader& cache,
                                           const std::vector<std::size_t>& exams) {
  if (tries_devices_ && !ensemble_.card().tuned)
    device_ = quickest_for(ensemble_, cache, exams, device_);
  return device_;
}

std::filesystem::path Predictor::weights(const std::filesystem::path& given) const {
  if (!bundle_) return given;
  const Json& backbone = bundle_->facts().at("backbone");
  if (!backbone.contains("file")) return {};  // random ones
  return bundle_->file(backbone["file"].get<std::string>());
}

const std::filesystem::path& Predictor::features() {
  if (raw_) cache_ = raw_->extract();
  return cache_;
}

std::vector<std::string> Predictor::warnings_of(const SequenceReader& cache,
                                                const std::vector<std::size_t>& exams) {
  const std::string times = check_times(ensemble_, cache, exams, without_times_);
  std::vector<std::string> said = ensemble_.unlearnt_inputs(cache, exams);
  if (!times.empty()) said.push_back(times);
  return said;
}

std::optional<std::size_t> Predictor::count_known(std::span<const cache::ExamInfo> exams,
                                                  const std::vector<std::string>& patients,
                                                  const std::vector<std::size_t>& used) const {
  if (other_patients_) return 0;
  if (bundle_) return std::nullopt;
  return temporal::count_known(folder_, exams, patients, used);
}

Json failures_json(const SequenceReader& cache) {
  Json failures = Json::array();
  for (const cache::Failure& failure : cache.failures())
    failures.push_back(
        {{"exam", failure.exam}, {"source", failure.source}, {"reason", failure.reason}});
  return failures;
}

// `coldframe predict`: probabilities, or numbers, for exams without labels.

namespace {

// One table of predictions, and what was left out of it.
struct Outcome {
  std::vector<std::size_t> exams;  // of the cache
  std::size_t left_out = 0, failures = 0;
  std::vector<OodScore> unlike;          // of each exam; empty where the run does not know
  std::vector<ExplainedExam> explained;  // with --explain or --maps
  std::int64_t mapped_block = 0;         // with --maps
  double map_gap = 0;

  bool clean() const { return left_out == 0 && failures == 0; }
};

Json summary_json(const Ensemble& ensemble, const SequenceReader& cache, const Outcome& outcome,
                  const ApplyOptions& options) {
  Json json;
  json["exams"] = outcome.exams.size();
  json["left_out"] = outcome.left_out;
  json["models"] = ensemble.size();
  json["targets"] = Json::array();
  for (std::size_t t = 0; t < ensemble.targets().size(); ++t) {
    const Target& target = ensemble.targets()[t];
    Json entry = {{"name", target.name}, {"task", task_name(target.task)}};
    if (!target.classes.empty()) entry["classes"] = target.classes;
    if (!target.horizons.empty()) entry["horizons"] = target.horizons;
    if (target.has_threshold()) entry["threshold"] = ensemble.threshold(t);
    json["targets"].push_back(entry);
  }
  if (!options.extraction.input.empty()) json["failures"] = failures_json(cache);
  if (!outcome.unlike.empty())
    json["unlike_training"] = {{"flagged", count_flagged(outcome.unlike)}, {"rate", kUnlikeRate}};
  if (options.sets) json["sets"] = *options.sets;
  json["predictions"] = options.out.string();
  if (!options.explain.empty()) {
    json["contributions"] = {{"file", options.explain.string()},
                             {"largest_gap", largest_gap(outcome.explained)},
                             {"tolerance", kCompleteness}};
  }
  if (!options.maps.empty()) {
    json["maps"] = {{"folder", options.maps.string()},
                    {"block", outcome.mapped_block},
                    {"largest_gap", outcome.map_gap},
                    {"tolerance", kCompleteness}};
  }
  return json;
}

std::string summary_text(const Ensemble& ensemble, const Outcome& outcome,
                         const ApplyOptions& options) {
  std::string text = concat(plural(outcome.exams.size(), "exam"), " predicted by ",
                            plural(ensemble.size(), "model"), ": ", options.out.string(), "\n");
  if (!options.explain.empty())
    text +=
        concat(options.explain.string(), ": integrated gradients from ",
               baseline_text(outcome.explained), "; ", completeness_text(outcome.explained), "\n");
  if (!options.maps.empty())
    text += concat(options.maps.string(), ": what patches add from block ", outcome.mapped_block,
                   " on, complete within ", exact(std::round(outcome.map_gap * 1e7) / 1e7), "\n");
  return text;
}

std::size_t frames_of(const Dataset& dataset, const std::vector<std::size_t>& exams) {
  std::size_t frames = 0;
  for (const std::size_t exam : exams) frames += present_frames(dataset.cache->exams()[exam]);
  return frames;
}

// Maps as they grow, in a folder that appears when it is whole.
struct UnfinishedMaps {
  UnfinishedMaps(Predictor& applied, const Dataset& dataset, const ApplyOptions& options)
      : out(folder_target(options.maps)),
        scratch(out.parent_path()),
        folder(scratch.path() / "maps"),
        maps(applied.ensemble().card(), dataset, applied.weights(options.weights)),
        writer(folder, maps, *dataset.cache, applied.ensemble().targets()) {}
  std::filesystem::path out;
  ScratchFolder scratch;
  std::filesystem::path folder;
  PatchMaps maps;
  MapWriter writer;
};

// Every exam, and for each of its targets. Maps, which take by far the most time, get their
// gradients group by group.
std::vector<ExplainedExam> explain(Ensemble& ensemble, const Dataset& dataset,
                                   const std::vector<std::size_t>& exams,
                                   const PredictionTable& predictions, UnfinishedMaps* maps) {
  constexpr std::size_t kMappedAtOnce = 64;
  const std::vector<Target>& targets = ensemble.targets();
  std::vector<ExplainedExam> explained;
  for (std::size_t i = 0; i < exams.size(); ++i) {
    for (std::size_t t = 0; t < targets.size(); ++t) {
      explained.push_back(
          {exams[i], t, targets[t].kind().explained_class(predictions.of[t].decision[i])});
      explained.back().keep_gradients = maps != nullptr;
    }
  }
  const std::size_t frames = maps ? frames_of(dataset, exams) * targets.size() : 0;
  Progress progress(
      maps ? "map" : "explain", maps ? "frames" : "exams by models",
      maps ? frames * count_vits(ensemble.models()) : explained.size() * ensemble.size());
  if (maps && !exams.empty())
    progress.estimate_after(frames_of(dataset, {exams.front()}) * targets.size());
  const auto go_on = [] {
    if (stop_requested()) throw Interrupted("stopped; run the same command again");
  };
  const std::function<void()> counted = [&] {
    go_on();
    progress.add();
  };
  const std::function<void()> uncounted = go_on;
  const std::size_t at_once = maps ? kMappedAtOnce * targets.size() : explained.size();
  for (std::size_t from = 0; from < explained.size(); from += at_once) {
    const auto group =
        std::span(explained).subspan(from, std::min(at_once, explained.size() - from));
    explain_exams(ensemble.models(), dataset, group, maps ? uncounted : counted);
    if (!maps) continue;
    const auto found = maps->maps.of(ensemble.models(), group, kAllFrames, counted);
    for (std::size_t i = 0; i < group.size(); i += targets.size())
      maps->writer.add((from + i) / targets.size(), group.subspan(i, targets.size()),
                       std::span(found).subspan(i, targets.size()));
    for (ExplainedExam& one : group) one.gradients.clear();
  }
  return explained;
}

// Contributions of frames and of their patches.
void write_explanations(Ensemble& ensemble, const Dataset& dataset,
                        const PredictionTable& predictions, const ApplyOptions& options,
                        UnfinishedMaps* maps, Outcome& outcome) {
  outcome.explained = explain(ensemble, dataset, outcome.exams, predictions, maps);
  if (!options.explain.empty())
    write_file_atomically(options.explain,
                          contributions_csv(*dataset.cache, ensemble.card(), outcome.explained),
                          existing_for(options.overwrite));
  if (!maps) return;
  maps->writer.finish();
  outcome.mapped_block = maps->maps.block();
  outcome.map_gap = maps->maps.largest_gap();
  publish(maps->folder, maps->out, existing_for(options.overwrite), require_maps);
}

// The table may be handed on, and folders may name patients: "'/pacs/a/x.dcm'" becomes "'x.dcm'".
std::string without_folders(const std::string& text) {
  std::string kept;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t end =
        text.compare(i, 2, "'/") == 0 ? text.find('\'', i + 1) : std::string::npos;
    if (end == std::string::npos) {
      kept += text[i++];
      continue;
    }
    kept += concat("'", std::filesystem::path(text.substr(i + 1, end - i - 1)).filename().string());
    i = end;
  }
  return kept;
}

// Why exams or frames of exams could not be read, by exam.
std::map<std::string, std::string> reasons_by_exam(const SequenceReader& cache) {
  std::map<std::string, std::string> reasons;
  for (const cache::Failure& failure : cache.failures()) {
    std::string& text = reasons[failure.exam];
    text += concat(text.empty() ? "" : "; ",
                   printable(std::filesystem::path(failure.source).filename().string()),
                   failure.source.empty() ? "" : ": ", printable(without_folders(failure.reason)));
  }
  return reasons;
}

// The predictions and what they rest on. An exam without any has a row, too: it says why.
std::string predictions_csv(const PredictionTable& predictions, const SequenceReader& cache) {
  auto reasons = reasons_by_exam(cache);
  auto rows = csv_rows(predictions);
  const std::size_t width = rows.front().size();
  const auto add = [&](std::vector<std::string>& row, const std::string& frames,
                       const std::string& missing, const std::string& why) {
    row.resize(width);
    row.insert(row.end(), {frames, missing, why});
  };
  add(rows.front(), "frames", "frames_missing", "failures");
  std::vector<bool> predicted(cache.exams().size(), false);
  for (std::size_t i = 0; i < predictions.rows.size(); ++i) {
    const std::size_t exam = predictions.rows[i].exam;
    const cache::ExamInfo& info = cache.exams()[exam];
    predicted[exam] = true;
    add(rows[i + 1], concat(present_frames(info)), concat(missing_frames(info)), reasons[info.id]);
  }
  for (std::size_t exam = 0; exam < predicted.size(); ++exam) {
    const cache::ExamInfo& info = cache.exams()[exam];
    const auto why = reasons.find(info.id);
    if (!predicted[exam]) {
      rows.push_back({info.id, info.patient});
      add(rows.back(), "0", concat(missing_frames(info)),
          why == reasons.end() ? "no frame could be read" : why->second);
    }
    if (why != reasons.end()) reasons.erase(why);
  }
  for (const auto& [exam, why] : reasons) {  // of which the cache has nothing else
    rows.push_back({exam});
    add(rows.back(), "0", "", why);
  }
  std::string csv;
  for (const auto& row : rows) csv += csv_row(row);
  return csv;
}

void warn_of_use(Predictor& applied, const SequenceReader& cache,
                 const std::vector<std::size_t>& exams) {
  const ModelMetadata& card = applied.ensemble().card();
  std::vector<std::string> patients;
  for (const cache::ExamInfo& exam : cache.exams()) patients.push_back(exam.patient);
  const std::size_t known = applied.count_known(cache.exams(), patients, exams).value_or(0);
  if (known > 0)
    log_warning(warn_of_same_ids(known, "the run",
                                 "predictions of them look better than the model is (see the run's "
                                 "own held-out predictions for them)"));
  for (const std::string& said :
       {warn_of_lengths(card, cache.exams(), exams), warn_of_kinds(card, cache.exams(), exams)})
    if (!said.empty()) log_warning(said);
}

// What can be said before any exam is looked at.
void check_explain(const ApplyOptions& options, Predictor& applied) {
  if (options.explain.empty() && options.maps.empty()) return;
  Ensemble& ensemble = applied.ensemble();
  require_explained(ensemble.targets(), options.explain.empty() ? "--maps" : "--explain");
  if (options.maps.empty()) return;
  for (const TrainedModel& one : ensemble.models())
    check_maps(one.card, applied.weights(options.weights));
  if (std::filesystem::exists(options.maps)) require_maps(options.maps);
}

// Predicts all exams of the cache that have a frame, and writes the tables.
Outcome predict(Predictor& applied, const SequenceReader& cache, const std::optional<Sets>& sets,
                const ApplyOptions& options) {
  Ensemble& ensemble = applied.ensemble();
  ensemble.require_same_features(cache, applied.cache());
  if (!options.maps.empty()) require_cut(cache);
  Outcome outcome;
  if (applied.raw()) outcome.failures = cache.failures().size();
  outcome.exams = exams_with_frames(cache);
  outcome.left_out = cache.exams().size() - outcome.exams.size();
  if (outcome.exams.empty() && !applied.raw())
    throw DataError("the cache has no exam with a readable frame");
  warn_of_use(applied, cache, outcome.exams);
  for (const std::string& said : applied.warnings_of(cache, outcome.exams)) log_warning(said);
  const Dataset dataset =
      ensemble.load(cache, outcome.exams, applied.device_for(cache, outcome.exams));
  std::optional<UnfinishedMaps> maps;
  if (!options.maps.empty()) maps.emplace(applied, dataset, options);
  const auto scores = ensemble.scores(dataset, outcome.exams);
  PredictionTable predictions = ensemble.averaged(cache, outcome.exams, scores);
  if (sets) sets->add_to(predictions, scores);
  outcome.unlike = judge_exams(applied.folder(), dataset, outcome.exams, times_shown_to(ensemble));
  if (const std::string warning = warn_of_unlike(outcome.unlike); !warning.empty())
    log_warning(warning);
  for (std::size_t i = 0; i < outcome.unlike.size(); ++i)
    if (is_of_other_kind(ensemble.card(), cache.exams()[outcome.exams[i]]))
      outcome.unlike[i].rank = 0;
  add_unlike(predictions, outcome.unlike);
  if (!options.explain.empty() || maps)
    write_explanations(ensemble, dataset, predictions, options, maps ? &*maps : nullptr, outcome);
  // Last, so that whoever stops the explanations can run the same command again.
  write_file_atomically(options.out, predictions_csv(predictions, cache),
                        existing_for(options.overwrite));
  if (outcome.left_out > 0)
    log_warning(
        concat(plural(outcome.left_out, "exam"), " without any readable frame: no prediction"));
  return outcome;
}

}  // namespace

int run_predict(const std::vector<std::string>& arguments) {
  ApplyOptions options;
  if (!parse_predict_options(arguments, options)) return 0;
  Predictor applied(options);
  check_explain(options, applied);
  std::optional<Sets> sets;
  if (options.sets) sets.emplace(applied.folder(), applied.ensemble(), *options.sets);
  SequenceReader cache(named_caches(applied.features().string()));
  for (const std::string& warning :
       arrange(cache, applied.ensemble().card().arrangement, options.data.equal_numbers))
    log_warning(warning);
  const Outcome outcome = predict(applied, cache, sets, options);
  std::cout << (options.json
                    ? summary_json(applied.ensemble(), cache, outcome, options).dump(2) + "\n"
                    : summary_text(applied.ensemble(), outcome, options));
  return static_cast<int>(outcome.clean() ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

}  // namespace coldframe::temporal
