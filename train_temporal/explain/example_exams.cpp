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

struct Choice {
  std::size_t row;  // of the table
  double height;    // the highest is chosen
};

// The key is that of a TaskKind::Example.
using Choices = std::map<std::pair<int, bool>, Choice>;

void consider(Choices& best, std::pair<int, bool> key, const Choice& choice) {
  const auto [found, added] = best.emplace(key, choice);
  if (!added && choice.height > found->second.height) found->second = choice;
}

Choices most_telling(const PredictionTable& table) {
  Choices best;
  const Target& target = table.targets.front();
  const PredictionTable::OfTarget& of = table.of.front();
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (table.rows[i].repeat != table.rows.front().repeat || std::isnan(of.label[i])) continue;
    for (const TaskKind::Example& one :
         target.kind().examples(of.label[i], table.scores(0, i), of.decision[i]))
      consider(best, {one.kind, one.right}, {i, one.height});
  }
  return best;
}

// Loads the models of those folds that hold out one of the exams chosen.
std::map<std::size_t, std::vector<TrainedModel>> models_by_fold(const std::filesystem::path& run,
                                                                const Choices& choices,
                                                                const PredictionTable& table,
                                                                const Cohort& cohort,
                                                                const Dataset& dataset) {
  std::map<std::size_t, std::vector<TrainedModel>> models;
  for (const auto& path : model_files(run)) {
    TrainedModel trained = read_model(path);
    const bool wanted = std::ranges::any_of(choices, [&](const auto& choice) {
      const PredictionTable::Row& row = table.rows[choice.second.row];
      return row.repeat == trained.card.repeat && row.fold == trained.card.fold;
    });
    if (!wanted) continue;
    trained.model->to(dataset.device);
    trained.model->covariates = trained.card.covariates.encode(cohort.covariates);
    models[trained.card.fold].push_back(std::move(trained));
  }
  return models;
}

// Explains those exams of `all` that the fold holds out; `fold_of` each of them.
void explain_fold(std::span<TrainedModel> models, std::size_t fold,
                  const std::vector<std::size_t>& fold_of, const Dataset& dataset,
                  std::vector<ExplainedExam>& all) {
  std::vector<std::size_t> places;
  std::vector<ExplainedExam> own;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (fold_of[i] != fold) continue;
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

FrameContributions entry(const ExplainedExam& explained, const PredictionTable& table,
                         std::size_t row, const Cohort& cohort) {
  const cache::ExamInfo& exam = cohort.exams()[explained.exam];
  const Target& target = table.targets.front();
  const PredictionTable::OfTarget& of = table.of.front();
  FrameContributions result;
  result.title = concat(
      target.kind().explained_title(target, of.label[row], table.scores(0, row), of.decision[row]),
      ": ", exam.id);
  result.output_name = target.kind().explained_output(target, explained.of_class.value_or(0));
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

FrameReport explain_examples(const ModelPredictions& main, const Cohort& cohort,
                             const Dataset& dataset, const std::filesystem::path& run,
                             cache::Pictures& pictures) {
  FrameReport report;
  const PredictionTable& table = main.held_out;
  if (!can_be_explained(table.targets)) return report;
  report.choice = table.targets.front().kind().explained_exams();
  const auto choices = most_telling(table);
  std::vector<ExplainedExam> all;
  std::vector<std::size_t> row_of, fold_of;
  for (const auto& [key, choice] : choices) {
    const PredictionTable::Row& row = table.rows[choice.row];
    if (std::ranges::count(all, row.exam, &ExplainedExam::exam) > 0) continue;
    const int decision = table.of.front().decision[choice.row];
    all.push_back({row.exam, 0, table.targets.front().kind().explained_class(decision)});
    row_of.push_back(choice.row);
    fold_of.push_back(row.fold);
  }
  try {
    auto models = models_by_fold(run, choices, table, cohort, dataset);
    for (auto& [fold, of_fold] : models) explain_fold(of_fold, fold, fold_of, dataset, all);
  } catch (const c10::OutOfMemoryError&) {
    log_warning("there is not enough memory to show contributions in the report");
    return {};
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    report.exams.push_back(entry(all[i], table, row_of[i], cohort));
    report.exams.back().pictures = pictures.of(all[i].exam);
  }
  if (!all.empty()) report.note = completeness_text(all);
  return report;
}

}  // namespace coldframe::temporal
