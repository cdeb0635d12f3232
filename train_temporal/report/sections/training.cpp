// The training: how far a cohort lies from its exams, what --search took, and losses.
#include <algorithm>
#include <map>
#include <numeric>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/metrics/metrics.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/scale_words.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

html::Body shift_section(const TargetReport& report) {
  html::Rows rows;
  for (const CohortShift& shift : report.shift) {
    rows.push_back({shift.trait, concat(shift.flagged, " of ", shift.judged),
                    shift.judged > 0 ? fixed(shift.median_rank, 3) : std::string("–")});
  }
  return html::table({"", "unlike the training data", "median rank"}, rows) +
         html::paragraph(concat(
             "Each exam is ranked by its distance from the training's among the exams "
             "that the training held out: of a cohort like it ",
             fixed(100 * report.shift_rate, 0), " % are unlike, and the median rank is 0.5."));
}

void add_shift(Json& summary, const TargetReport& report) {
  Json& json = summary["shift"] = {{"rate", report.shift_rate}};
  for (const CohortShift& shift : report.shift) {
    Json& entry = json[shift.trait] = {{"exams", shift.judged}, {"flagged", shift.flagged}};
    if (shift.judged > 0) entry["median_rank"] = shift.median_rank;
  }
}

bool searched(const TargetReport& report) {
  return !report.choices.empty() && !report.choices.front().setting.is_null();
}

html::Body search_section(const TargetReport& report) {
  std::vector<std::string> header = {"repeat", "fold"};
  for (const auto& [option, value] : report.choices.front().setting.items())
    header.push_back(option);
  html::Rows rows;
  for (const FoldChoice& choice : report.choices) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {concat(choice.repeat), concat(choice.fold)};
    for (const auto& [option, value] : choice.setting.items())
      row.push_back(value.is_string() ? value.get<std::string>() : value.dump());
  }
  return html::paragraph(
             "Each fold took, by its validation part alone, this one of the settings that were "
             "tried (search.csv has all):") +
         html::table(header, rows);
}

html::Series loss_series(const std::string& name, const std::vector<FoldCurve>& curves,
                         std::vector<double> FoldCurve::*loss) {
  std::vector<std::vector<double>> values;
  for (const FoldCurve& curve : curves) values.push_back(curve.*loss);
  // Fits stop at different epochs: behind the middle one the mean would be that of a few odd ones.
  std::vector<std::size_t> lengths;
  for (const auto& one : values) lengths.push_back(one.size());
  std::ranges::sort(lengths);
  for (auto& one : values) one.resize(std::min(one.size(), lengths[lengths.size() / 2]));
  const Averages mean = average(values);
  html::Series series{name, mean.mean, mean.mean};
  std::iota(series.x.begin(), series.x.end(), 1);  // epochs
  if (curves.size() > 1) {
    series.low = mean.low;
    series.high = mean.high;
  }
  return series;
}

// The epoch that each fit keeps.
html::Series kept_epochs(const std::vector<FoldCurve>& curves) {
  html::Series kept{.name = "kept epoch of each fit", .points = true};
  for (const FoldCurve& curve : curves) {
    if (curve.best_epoch >= curve.validation_loss.size()) continue;
    kept.x.push_back(static_cast<double>(curve.best_epoch + 1));
    kept.y.push_back(curve.validation_loss[curve.best_epoch]);
  }
  return kept;
}

// True where the validation loss rose by a twentieth behind the kept epoch, while the training
// loss went on falling.
bool overfits(const FoldCurve& curve) {
  constexpr double kRise = 1.05;
  if (curve.best_epoch >= curve.validation_loss.size() || curve.train_loss.empty()) return false;
  return curve.validation_loss.back() > kRise * curve.validation_loss[curve.best_epoch] &&
         curve.train_loss.back() < curve.train_loss[curve.best_epoch];
}

std::string overfitting_text(const std::vector<FoldCurve>& curves) {
  const auto fits = std::ranges::count_if(curves, overfits);
  if (fits == 0) return {};
  return html::paragraph(concat(
      fits, " of ", plural(curves.size(), "fit"),
      " overfit after the epoch that was kept: the validation loss rose by more than 5 % while "
      "the training loss went on falling. Early stopping kept the model from before."));
}

html::Body loss_charts(const TargetReport& report) {
  if (report.curves.empty()) return {};
  const char* loss = words_of(report.scale).loss;
  const html::Chart mean{
      .title = "Loss, mean and range of " + plural(report.curves.size(), "fit"),
      .x_label = "epoch",
      .y_label = loss,
      .series = {loss_series("training", report.curves, &FoldCurve::train_loss),
                 loss_series("validation", report.curves, &FoldCurve::validation_loss),
                 kept_epochs(report.curves)},
      .whole_x = true};
  std::map<std::pair<std::size_t, std::size_t>, std::vector<FoldCurve>> by_fold;
  for (const FoldCurve& curve : report.curves) by_fold[{curve.repeat, curve.fold}].push_back(curve);
  const std::string said = overfitting_text(report.curves);
  if (by_fold.size() == 1) return html::line_chart(mean) + said;
  html::Chart folds{"Validation loss of each fold", "epoch", loss};
  folds.whole_x = true;
  for (const auto& [key, curves] : by_fold) {
    if (folds.series.size() == kMostLines) {
      folds.title = concat("Validation loss of the first ", kMostLines, " folds");
      break;
    }
    const bool repeated = by_fold.rbegin()->first.first > 0;
    const std::string name =
        repeated ? concat("repeat ", key.first, " fold ", key.second) : concat("fold ", key.second);
    html::Series series = loss_series(name, curves, &FoldCurve::validation_loss);
    series.low.clear();
    series.high.clear();
    folds.series.push_back(std::move(series));
  }
  return html::line_chart(mean) + html::line_chart(folds) + said;
}

}  // namespace

std::span<const Section> training_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Shift against the training cohort",
       .applies = [](const TargetReport& report) { return !report.shift.empty(); },
       .body = shift_section,
       .json = add_shift},
      {.heading = "Search",
       .applies = searched,
       .body = search_section,
       .text =
           [](const TargetReport& report) {
             std::vector<Json> settings;
             for (const FoldChoice& choice : report.choices) settings.push_back(choice.setting);
             return concat("Search took ", search_text(settings), ".\n");
           }},
      {.heading = "Training", .body = loss_charts}};
  return kSections;
}

}  // namespace coldframe::temporal
