#include "train_temporal/explain/example_exams.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/cli/progress.h"
#include "common/text/text.h"
#include "train_temporal/explain/patch_maps.h"
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

using ModelsOfFolds = std::map<std::size_t, std::vector<TrainedModel>>;

// Loads the models of those folds that hold out one of the exams chosen.
ModelsOfFolds models_by_fold(const std::filesystem::path& run, const Choices& choices,
                             const PredictionTable& table, const Cohort& cohort,
                             const Dataset& dataset) {
  ModelsOfFolds models;
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

void go_on() {
  if (stop_requested()) throw Interrupted("stopped; run the same command again with --resume");
}

// The exams that the report shows.
struct Examples {
  std::vector<ExplainedExam> exams;
  std::vector<std::size_t> row, fold;            // of each
  std::vector<std::vector<html::Picture>> maps;  // likewise; empty: there are none
  std::int64_t block = 0;                        // whose input they look at
  double largest_gap = 0;                        // of any frame
};

// Small pictures of an exam's maps; over the frames where the cut holds their pixels and the page
// may show them.
std::vector<html::Picture> map_pictures(PatchMaps& maps, const ExplainedExam& explained,
                                        const cache::ExamInfo& info, const torch::Tensor& of_frames,
                                        bool shows_frames) {
  constexpr std::int64_t kLongSide = 96;  // pixels
  const ImageSize& seen = maps.image_size();
  const std::int64_t longest = std::max(seen.height, seen.width);
  const ImageSize size(std::max<std::int64_t>(kLongSide * seen.height / longest, 1),
                       std::max<std::int64_t>(kLongSide * seen.width / longest, 1));
  torch::Tensor pixels;
  if (shows_frames) pixels = maps.pixels_of(explained.exam, cache::kMostFramesShown);
  std::vector<std::size_t> present;
  for (std::size_t slot = 0; slot < info.frames(); ++slot)
    if (info.present[slot]) present.push_back(slot);
  const auto shown = cache::middles_of_parts(present.size(), cache::kMostFramesShown);
  const double full = full_color(of_frames);
  std::vector<html::Picture> pictures;
  for (std::size_t i = 0; i < shown.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    pictures.push_back(
        {map_picture(of_frames[row] / full, pixels.defined() ? pixels[row] : torch::Tensor(), size),
         concat("what patches of frame ", present[shown[i]], " add")});
  }
  return pictures;
}

Examples chosen_exams(const Choices& choices, const PredictionTable& table) {
  Examples examples;
  for (const auto& [key, choice] : choices) {
    const PredictionTable::Row& row = table.rows[choice.row];
    if (std::ranges::count(examples.exams, row.exam, &ExplainedExam::exam) > 0) continue;
    const int decision = table.of.front().decision[choice.row];
    examples.exams.push_back({row.exam, 0, table.targets.front().kind().explained_class(decision)});
    examples.row.push_back(choice.row);
    examples.fold.push_back(row.fold);
  }
  examples.maps.resize(examples.exams.size());
  return examples;
}

struct Mapping {
  const std::filesystem::path& weights;  // as PatchMaps has them
  bool shows_frames;                     // behind the maps, where the cut holds pixels
  Progress& progress;                    // frames by ViTs
};

std::size_t frames_to_map(const Examples& examples, const ModelsOfFolds& models,
                          const Cohort& cohort) {
  std::size_t frames = 0;
  for (std::size_t i = 0; i < examples.exams.size(); ++i) {
    const std::vector<TrainedModel>& of_fold = models.at(examples.fold[i]);
    const std::size_t vits = of_fold.front().card.tuned ? of_fold.size() : 1;
    const std::size_t present = present_frames(cohort.exams()[examples.exams[i].exam]);
    frames += vits * std::min(present, cache::kMostFramesShown);
  }
  return frames;
}

// Explains those exams that the fold holds out; `mapping`: null without maps.
void explain_fold(std::span<TrainedModel> models, std::size_t fold, const Dataset& dataset,
                  const Mapping* mapping, Examples& all) {
  std::vector<std::size_t> places;
  std::vector<ExplainedExam> own;
  for (std::size_t i = 0; i < all.exams.size(); ++i) {
    if (all.fold[i] != fold) continue;
    places.push_back(i);
    own.push_back(all.exams[i]);
    own.back().keep_gradients = mapping != nullptr;
  }
  explain_exams(models, dataset, own, go_on);
  for (std::size_t i = 0; i < places.size(); ++i) all.exams[places[i]] = own[i];
  if (mapping == nullptr) return;
  PatchMaps maps(models, dataset, mapping->weights);
  const auto found = maps.of(own, cache::kMostFramesShown, [&] {
    go_on();
    mapping->progress.add();
  });
  for (std::size_t i = 0; i < places.size(); ++i)
    all.maps[places[i]] = map_pictures(maps, own[i], dataset.cache->exams()[own[i].exam], found[i],
                                       mapping->shows_frames);
  all.block = maps.block();
  all.largest_gap = std::max(all.largest_gap, maps.largest_gap());
}

std::string maps_text(const Examples& examples) {
  return concat("Above each drawing: what each patch of a frame adds, red where it raises the ",
                "output and blue where it lowers it, the strongest of the exam in full colour. ",
                "Maps cover what the ViT saw of a frame. These are integrated gradients ",
                "on the tokens that enter its block ", examples.block, " (counted from 0), from a ",
                "frame whose patches are all its mean patch; they add up within ",
                exact(std::round(examples.largest_gap * 1e7) / 1e7), ".");
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
                             cache::Pictures& pictures,
                             const std::optional<std::filesystem::path>& weights) {
  FrameReport report;
  const PredictionTable& table = main.held_out;
  if (!can_be_explained(table.targets)) return report;
  report.choice = table.targets.front().kind().explained_exams();
  const auto choices = most_telling(table);
  Examples all = chosen_exams(choices, table);
  try {
    auto models = models_by_fold(run, choices, table, cohort, dataset);
    std::optional<Progress> progress;
    std::optional<Mapping> mapping;
    if (weights) {
      progress.emplace("map", "frames", frames_to_map(all, models, cohort));
      mapping.emplace(Mapping{*weights, pictures.wanted(), *progress});
    }
    for (auto& [fold, of_fold] : models)
      explain_fold(of_fold, fold, dataset, mapping ? &*mapping : nullptr, all);
  } catch (const c10::OutOfMemoryError&) {
    log_warning("there is not enough memory to show contributions in the report");
    return {};
  }
  for (std::size_t i = 0; i < all.exams.size(); ++i) {
    report.exams.push_back(entry(all.exams[i], table, all.row[i], cohort));
    report.exams.back().pictures = pictures.of(all.exams[i].exam);
    report.exams.back().maps = std::move(all.maps[i]);
  }
  if (all.exams.empty()) return report;
  report.note = completeness_text(all.exams);
  if (weights) report.maps = maps_text(all);
  return report;
}

}  // namespace coldframe::temporal
