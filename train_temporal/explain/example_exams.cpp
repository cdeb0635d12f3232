#include "train_temporal/explain/example_exams.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/cli/log.h"
#include "common/text/text.h"
#include "train_temporal/explain/contributions.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run/run_folder.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kMostClasses = 3;

struct Choice {
  const FoldResult* fold;
  std::size_t place;  // in the fold's test part
  double height;      // the highest is chosen
};

// The key is the class decided for and whether that is right, or what is extreme about a number.
using Choices = std::map<std::pair<int, bool>, Choice>;

void consider(Choices& best, std::pair<int, bool> key, const Choice& choice) {
  const auto [found, added] = best.emplace(key, choice);
  if (!added && choice.height > found->second.height) found->second = choice;
}

Choices most_telling(const ModelFolds& main, const Labels& labels) {
  Choices best;
  for (const FoldResult& fold : main.folds) {
    if (fold.split->repeat != main.folds.front().split->repeat) continue;
    const TargetScores& all = fold.targets.front();
    for (std::size_t i = 0; i < fold.split->test.size(); ++i) {
      const std::size_t exam = fold.split->test[i];
      const int decided = all.decision[i], label = labels.value[exam];
      if (decided >= static_cast<int>(kMostClasses) || label == kUnlabeled) continue;
      if (labels.has_classes()) {
        const double p = all.scores[i * labels.scores() + static_cast<std::size_t>(decided)];
        consider(best, {decided, decided == label}, {&fold, i, p});
        continue;
      }
      const double predicted = all.scores[i * labels.scores()];
      const double error = predicted - labels.number[exam];
      const double heights[] = {predicted, -predicted, error, -error};
      for (int kind = 0; kind < (labels.is_survival() ? 2 : 4); ++kind) {
        consider(best, {kind, true}, {&fold, i, heights[kind]});
      }
    }
  }
  return best;
}

std::string title_of(const Labels& labels, const Choice& choice, std::size_t exam) {
  const TargetScores& all = choice.fold->targets.front();
  const std::size_t width = labels.scores();
  return labels.kind().explained_title(
      labels, labels.at(exam, 0),
      std::span<const double>(all.scores).subspan(choice.place * width, width),
      all.decision[choice.place]);
}

// Loads the models of those folds that hold out one of the exams chosen.
std::map<std::size_t, std::vector<TrainedModel>> models_by_fold(const std::filesystem::path& run,
                                                                const Choices& choices,
                                                                const Cohort& cohort,
                                                                const Dataset& dataset) {
  std::map<std::size_t, std::vector<TrainedModel>> models;
  for (const auto& path : model_files(run)) {
    TrainedModel trained = read_model(path);
    const bool wanted = std::ranges::any_of(choices, [&](const auto& choice) {
      const Split& split = *choice.second.fold->split;
      return split.repeat == trained.card.repeat && split.fold == trained.card.fold;
    });
    if (!wanted) continue;
    trained.model->to(dataset.device);
    trained.model->covariates = trained.card.covariates.encode(cohort.covariates);
    models[trained.card.fold].push_back(std::move(trained));
  }
  return models;
}

// Explains those exams of `all` that the fold holds out.
void explain_fold(std::span<TrainedModel> models, std::size_t fold,
                  const std::vector<const Choice*>& choice_of, const Dataset& dataset,
                  std::vector<ExplainedExam>& all) {
  std::vector<std::size_t> places;
  std::vector<ExplainedExam> own;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (choice_of[i]->fold->split->fold != fold) continue;
    places.push_back(i);
    own.push_back(all[i]);
  }
  explain_exams(models, dataset, own, [] {});
  for (std::size_t i = 0; i < places.size(); ++i) all[places[i]] = own[i];
}

// True where the times of all frames are known and an axis of seconds tells frames apart; on one of
// visits that lie years apart those of a visit are one point.
bool shows_on_an_axis(const cache::ExamInfo& exam) {
  constexpr double kWidest = 1000;  // times the median interval
  std::vector<double> intervals;
  double last = std::numeric_limits<double>::quiet_NaN();
  for (std::size_t frame = 0; frame < exam.frames(); ++frame) {
    if (!exam.present[frame]) continue;
    if (!std::isfinite(exam.time_s[frame])) return false;
    if (std::isfinite(last)) intervals.push_back(exam.time_s[frame] - last);
    last = exam.time_s[frame];
  }
  if (intervals.empty()) return true;
  std::ranges::sort(intervals);
  return intervals.back() <= kWidest * intervals[intervals.size() / 2];
}

FrameContributions entry(const ExplainedExam& explained, const Choice& choice,
                         const Cohort& cohort) {
  const cache::ExamInfo& exam = cohort.exams()[explained.exam];
  const Labels& labels = cohort.targets[0];
  FrameContributions result;
  result.title = concat(title_of(labels, choice, explained.exam), ": ", exam.id);
  result.output_name = labels.kind().explained_output(labels, explained.of_class);
  result.output = explained.values.output;
  result.baseline = explained.values.baseline;
  result.timed = shows_on_an_axis(exam);
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
  const Labels& labels = cohort.targets[0];
  report.choice = labels.kind().explained_exams();
  const auto choices = most_telling(main, labels);
  std::vector<ExplainedExam> all;
  std::vector<const Choice*> choice_of;
  for (const auto& [key, choice] : choices) {
    const std::size_t exam = choice.fold->split->test[choice.place];
    if (std::ranges::count(all, exam, &ExplainedExam::exam) > 0) continue;
    all.push_back({exam, 0, explained_class(labels, key.first)});
    choice_of.push_back(&choice);
  }
  try {
    auto models = models_by_fold(run, choices, cohort, dataset);
    for (auto& [fold, of_fold] : models) explain_fold(of_fold, fold, choice_of, dataset, all);
  } catch (const c10::OutOfMemoryError&) {
    log_warning("there is not enough memory to show contributions in the report");
    return {};
  }
  for (std::size_t i = 0; i < all.size(); ++i)
    report.exams.push_back(entry(all[i], *choice_of[i], cohort));
  if (!all.empty()) report.note = completeness_text(all);
  return report;
}

}  // namespace coldframe::temporal
