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
#include "common/torch/device.h"
#include "train_temporal/explain/maps.h"
#include "train_temporal/labels/task_kind.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run/run_folder.h"

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
  if (shows_frames) pixels = maps.pixels_of(explained.exam, cache::kMaxFramesShown);
  const std::vector<MappedFrame> frames = mapped_frames(info, cache::kMaxFramesShown);
  const double full = full_color(of_frames);
  std::vector<html::Picture> pictures;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i);
    pictures.push_back(
        {map_picture(of_frames[row] / full, pixels.defined() ? pixels[row] : torch::Tensor(), size),
         concat("what patches of frame ", frames[i].slot, " add")});
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

std::size_t frames_to_map(const Examples& examples, const ModelsOfFolds& models,
                          const Cohort& cohort) {
  std::size_t frames = 0;
  for (std::size_t i = 0; i < examples.exams.size(); ++i) {
    const std::vector<TrainedModel>& of_fold = models.at(examples.fold[i]);
    const std::size_t vits = count_vits(of_fold);
    const std::size_t present = present_frames(cohort.exams()[examples.exams[i].exam]);
    frames += vits * std::min(present, cache::kMaxFramesShown);
  }
  return frames;
}

// Calls `take(models, places)` with the models of each fold and the places of the examples that it
// holds out.
template <class Take>
void for_folds(ModelsOfFolds& models, const Examples& examples, const Take& take) {
  for (auto& [fold, of_fold] : models) {
    std::vector<std::size_t> places;
    for (std::size_t i = 0; i < examples.fold.size(); ++i)
      if (examples.fold[i] == fold) places.push_back(i);
    take(of_fold, places);
  }
}

std::vector<ExplainedExam> exams_at(const std::vector<std::size_t>& places,
                                    const Examples& examples) {
  std::vector<ExplainedExam> exams;
  for (const std::size_t place : places) exams.push_back(examples.exams[place]);
  return exams;
}

void explain_folds(ModelsOfFolds& models, const Dataset& dataset, bool for_maps, Examples& all) {
  for (ExplainedExam& exam : all.exams) exam.keep_gradients = for_maps;
  for_folds(models, all, [&](std::vector<TrainedModel>& of_fold, const auto& places) {
    std::vector<ExplainedExam> own = exams_at(places, all);
    explain_exams(of_fold, dataset, own, go_on);
    for (std::size_t i = 0; i < places.size(); ++i) all.exams[places[i]] = std::move(own[i]);
  });
}

std::string maps_text(const PatchMaps& maps) {
  return concat("Above each drawing, and larger in ", kMapsFolder,
                "/index.html of the run: what each patch of a frame adds, red where it raises the ",
                "output and blue where it lowers it, the strongest of the exam in full colour. ",
                "Maps cover what the ViT saw of a frame. These are integrated gradients ",
                "on the tokens that enter its block ", maps.block(), " (counted from 0), from a ",
                "frame whose patches are all its mean patch; they add up within ",
                exact(std::round(maps.largest_gap() * 1e7) / 1e7), ".");
}

// Maps explained exams, through one ViT where it is frozen, writes the maps into `folder`, and
// returns what the report says of them. `shows_frames`: behind the maps, where the cut holds
// pixels.
std::string map_examples(ModelsOfFolds& models, const Cohort& cohort, const Dataset& dataset,
                         const std::filesystem::path& weights, const std::filesystem::path& folder,
                         bool shows_frames, Examples& all) {
  Progress progress("map", "frames", frames_to_map(all, models, cohort));
  progress.estimate_after(cache::kMaxFramesShown);
  const ModelMetadata& card = models.begin()->second.front().card;
  PatchMaps maps(card, dataset, weights);
  std::vector<torch::Tensor> of_frames(all.exams.size());
  for_folds(models, all, [&](const std::vector<TrainedModel>& of_fold, const auto& places) {
    const std::vector<ExplainedExam> own = exams_at(places, all);
    const auto found = maps.of(of_fold, own, cache::kMaxFramesShown, [&] {
      go_on();
      progress.add();
    });
    for (std::size_t i = 0; i < places.size(); ++i) of_frames[places[i]] = found[i];
  });
  MapWriter writer(folder, maps, cohort.cache, card.targets, cache::kMaxFramesShown, shows_frames);
  for (std::size_t i = 0; i < all.exams.size(); ++i) {
    const ExplainedExam& one = all.exams[i];
    writer.add(i, {&one, 1}, {&of_frames[i], 1});
    all.maps[i] = map_pictures(maps, one, cohort.exams()[one.exam], of_frames[i], shows_frames);
  }
  writer.finish();
  return maps_text(maps);
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
  result.baseline_name = baseline_name(explained);
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
  std::filesystem::remove_all(run / kMapsFolder);  // what a run that was stopped had begun
  const PredictionTable& table = main.held_out;
  if (!can_be_explained(table.targets)) return report;
  report.choice = table.targets.front().kind().explained_exams();
  const auto choices = most_telling(table);
  Examples all = chosen_exams(choices, table);
  if (all.exams.empty()) return report;
  ModelsOfFolds models;
  try {
    models = models_by_fold(run, choices, table, cohort, dataset);
    explain_folds(models, dataset, weights.has_value(), all);
  } catch (const std::exception& error) {
    if (!is_out_of_memory(error)) throw;
    log_warning(concat("the report shows no contributions of frames, for lack of memory: ",
                       first_line(error), "; raise --memory-budget"));
    return {};
  }
  if (weights) {
    try {
      report.maps = map_examples(models, cohort, dataset, *weights, run / kMapsFolder,
                                 pictures.wanted(), all);
    } catch (const std::exception& error) {
      if (!is_out_of_memory(error)) throw;
      std::filesystem::remove_all(run / kMapsFolder);
      report.maps = concat("There are no maps, for lack of memory: ", first_line(error), ".");
      log_warning(
          concat("the report has no maps, for lack of memory: ", first_line(error),
                 "; raise --memory-budget, or map the exams by `coldframe predict --maps`"));
      all.maps.assign(all.exams.size(), {});
    }
  }
  for (std::size_t i = 0; i < all.exams.size(); ++i) {
    report.exams.push_back(entry(all.exams[i], table, all.row[i], cohort));
    report.exams.back().pictures = pictures.of(all.exams[i].exam);
    report.exams.back().maps = std::move(all.maps[i]);
  }
  report.baseline = baseline_text(all.exams);
  report.note = completeness_text(all.exams);
  return report;
}

}  // namespace coldframe::temporal
