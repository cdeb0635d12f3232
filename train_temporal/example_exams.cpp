#include "train_temporal/example_exams.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>

#include "common/log.h"
#include "train_temporal/contributions.h"
#include "train_temporal/data/feature_stream.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run_folder.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kMostClasses = 3;

struct Choice {
  const FoldResult* fold;
  std::size_t place;  // in the fold's test part
  double probability;
};

// By the class decided for and whether that is right: the surest.
using Choices = std::map<std::pair<int, bool>, Choice>;
Choices surest(const ModelFolds& main, const Labels& labels) {
  Choices best;
  for (const FoldResult& fold : main.folds) {
    if (fold.split->repeat != main.folds.front().split->repeat) continue;
    const TargetScores& all = fold.targets.front();
    for (std::size_t i = 0; i < fold.split->test.size(); ++i) {
      const int decided = all.decision[i], label = labels.value[fold.split->test[i]];
      if (decided >= static_cast<int>(kMostClasses) || label == kUnlabeled) continue;
      const double p = all.scores[i * labels.scores() + static_cast<std::size_t>(decided)];
      const auto key = std::pair(decided, decided == label);
      const auto found = best.find(key);
      if (found == best.end() || p > found->second.probability) best[key] = {&fold, i, p};
    }
  }
  return best;
}

// Of the folds that hold out one of the exams chosen.
std::map<std::size_t, std::vector<TrainedModel>> models_by_fold(const std::filesystem::path& run,
                                                                const Choices& choices,
                                                                const torch::Device& device) {
  std::map<std::size_t, std::vector<TrainedModel>> models;
  for (const auto& path : model_files(run)) {
    TrainedModel trained = read_model(path);
    const bool wanted = std::ranges::any_of(choices, [&](const auto& choice) {
      const Split& split = *choice.second.fold->split;
      return split.repeat == trained.card.repeat && split.fold == trained.card.fold;
    });
    if (!wanted) continue;
    trained.model->to(device);
    models[trained.card.fold].push_back(std::move(trained));
  }
  return models;
}

FrameContributions entry(const ExplainedExam& explained, const Choice& choice,
                         const Cohort& cohort) {
  const cache::ExamInfo& exam = cohort.exams()[explained.exam];
  const Labels& labels = cohort.targets[0];
  const auto& classes = labels.classes;
  FrameContributions result;
  result.exam = exam.id;
  result.label = classes[static_cast<std::size_t>(labels.value[explained.exam])];
  result.decision =
      classes[static_cast<std::size_t>(choice.fold->targets.front().decision[choice.place])];
  result.of_class = classes[explained.of_class];
  result.probability = explained.values.output;
  result.baseline = explained.values.baseline;
  result.timed = true;
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    if (exam.present[frame] && !std::isfinite(exam.time_s[frame])) result.timed = false;
  }
  std::size_t present = 0;
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    if (!exam.present[frame]) continue;
    result.at.push_back(result.timed ? exam.time_s[frame] : static_cast<double>(frame + 1));
    result.contribution.push_back(explained.values.frames[present++]);
  }
  return result;
}

}  // namespace

FrameReport explain_examples(const ModelFolds& main, const Cohort& cohort, const Dataset& dataset,
                             const std::filesystem::path& run) {
  FrameReport report;
  if (!can_be_explained(cohort.targets.list())) return report;
  const auto choices = surest(main, cohort.targets[0]);
  auto models = models_by_fold(run, choices, dataset.device);
  std::unique_ptr<FeatureStream> stream;
  if (dataset.streamed()) {
    std::vector<std::size_t> exams;
    for (const auto& [key, choice] : choices) {
      exams.push_back(choice.fold->split->test[choice.place]);
    }
    stream = std::make_unique<FeatureStream>(dataset);
    stream->plan({exams});
    if (!exams.empty()) stream->next();
  }
  const Dataset& shown = stream ? stream->window() : dataset;
  std::vector<ExplainedExam> all;
  const bool binary = cohort.targets[0].binary();
  for (const auto& [key, choice] : choices) {
    const std::size_t of_class = binary ? 1 : static_cast<std::size_t>(key.first);
    const std::size_t exam = choice.fold->split->test[choice.place];
    try {
      all.push_back(explain_exam(models[choice.fold->split->fold], shown, exam, of_class));
    } catch (const c10::OutOfMemoryError&) {
      log_warning("there is not enough memory to show contributions in the report");
      return {};
    }
    report.exams.push_back(entry(all.back(), choice, cohort));
  }
  if (!all.empty()) report.note = completeness_text(all);
  return report;
}

}  // namespace coldframe::temporal
