// ROC and precision–recall, averaged over folds, with bands from resamples of patients.
#include <algorithm>
#include <cmath>
#include <optional>

#include "common/charts/html.h"
#include "common/cli/progress.h"
#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "train_temporal/metrics/metrics.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

using html::Chart;
using html::Series;

constexpr std::size_t kMostBands = 4;  // in one drawing

std::vector<double> unit_grid() {
  std::vector<double> grid(101);
  for (std::size_t i = 0; i < grid.size(); ++i) grid[i] = static_cast<double>(i) / 100.0;
  return grid;
}

using CurveOf = Curve (*)(std::span<const double>, std::span<const int>);
using ValuesAt = std::vector<double> (*)(const Curve&, const std::vector<double>&);

struct CurveKind {
  const char* name;
  CurveOf curve_of;
  ValuesAt values_at;
};
constexpr CurveKind kRoc = {"ROC", roc_curve, roc_at};
constexpr CurveKind kPrecisionRecall = {"precision and recall", precision_recall_curve,
                                        precision_at};

// The mean runs over the folds in which the curve of one class against the rest exists; empty where
// none does.
std::vector<double> mean_values(const std::vector<ScoredExams>& folds, std::size_t of_class,
                                const CurveKind& kind) {
  std::vector<std::vector<double>> values;
  for (const ScoredExams& fold : folds) {
    const OneVsRest rest = one_vs_rest(fold, of_class);
    const Curve curve = kind.curve_of(rest.score, rest.positive);
    if (!curve.x.empty()) values.push_back(kind.values_at(curve, unit_grid()));
  }
  return values.empty() ? std::vector<double>() : average(values).mean;
}

// Percentiles over resamples of patients, point by point.
void add_band(Series& series, const TargetReport& report, std::size_t of_class,
              const CurveKind& kind, Progress& progress) {
  const BootstrapOptions& options = report.bootstrap;
  std::vector<std::vector<double>> at(series.x.size());
  for (std::size_t r = 0; r < options.resamples; ++r) {
    const auto mean =
        mean_values(resample_folds(report.models.front().folds, options.seed, r), of_class, kind);
    for (std::size_t i = 0; i < mean.size(); ++i) at[i].push_back(mean[i]);
    progress.add();
  }
  for (std::vector<double>& values : at) {
    if (values.empty()) continue;
    std::ranges::sort(values);
    series.low.push_back(quantile(values, (1 - options.level) / 2));
    series.high.push_back(quantile(values, (1 + options.level) / 2));
  }
}

Series mean_curve(const std::string& name, const ModelResult& model, std::size_t of_class,
                  const CurveKind& kind) {
  std::vector<ScoredExams> folds;
  for (const FoldScores& fold : model.folds) folds.push_back(fold.exams);
  const std::vector<double> mean = mean_values(folds, of_class, kind);
  if (mean.empty()) return {name + " (undefined)"};
  return {name, unit_grid(), mean};
}

Series banded_curve(const std::string& name, const TargetReport& report, std::size_t of_class,
                    const CurveKind& kind, Progress& progress) {
  Series series = mean_curve(name, report.models.front(), of_class, kind);
  if (!series.x.empty()) add_band(series, report, of_class, kind, progress);
  return series;
}

std::vector<Series> ranking_series(const TargetReport& report, const CurveKind& kind) {
  const ModelResult& model = report.models.front();
  const std::size_t classes = report.classes.size();
  const std::size_t bands = classes == 2 ? 1 : classes <= kMostBands ? classes : 0;
  std::optional<Progress> progress;
  if (bands > 0)
    progress.emplace(concat("bands of ", kind.name), "resamples",
                     bands * report.bootstrap.resamples);
  std::vector<Series> series;
  if (report.classes.size() == 2) {
    const bool folds = model.folds.size() > 1;
    series.push_back(
        banded_curve(folds ? "mean over folds" : model.name, report, 1, kind, *progress));
    if (folds) {
      const OneVsRest all = one_vs_rest(pooled_exams(model), 1);
      const Curve curve = kind.curve_of(all.score, all.positive);
      series.push_back({.name = "pooled", .x = curve.x, .y = curve.y, .dashed = true});
    }
    return series;
  }
  for (std::size_t c = 0; c < std::min(report.classes.size(), kMostLines); ++c) {
    series.push_back(bands > 0 ? banded_curve(report.classes[c], report, c, kind, *progress)
                               : mean_curve(report.classes[c], model, c, kind));
  }
  return series;
}

std::string of_which_class(const TargetReport& report) {
  return report.classes.size() == 2 ? ", '" + report.classes[1] + "'" : ", each class vs the rest";
}

std::string band_text(const TargetReport& report) {
  if (report.classes.size() > kMostBands) return {};
  return concat(" [", level_text(report), " by patient]");
}

std::string roc_chart(const TargetReport& report) {
  return html::line_chart({"ROC" + band_text(report), "1 − specificity" + of_which_class(report),
                           "sensitivity", ranking_series(report, kRoc), true, true});
}

std::string precision_recall_chart(const TargetReport& report) {
  Chart chart{"Precision and recall" + band_text(report), "recall" + of_which_class(report),
              "precision", ranking_series(report, kPrecisionRecall), true};
  if (report.classes.size() == 2) {
    const std::vector<int> label = pooled_exams(report.models.front()).label;
    const double share = static_cast<double>(std::ranges::count(label, 1)) /
                         static_cast<double>(std::max<std::size_t>(label.size(), 1));
    chart.series.push_back(
        {.name = "chance", .x = {0.0, 1.0}, .y = {share, share}, .dashed = true});
  }
  return html::line_chart(chart);
}

}  // namespace

std::string model_roc_chart(const TargetReport& report) {
  if (report.models.size() < 2 || !is_binary(report)) return {};
  Chart chart{
      "ROC of all models, mean over folds", "1 − specificity", "sensitivity", {}, true, true};
  if (report.models.size() > kMostLines)
    chart.title = concat("ROC of the first ", kMostLines, " models, mean over folds");
  for (std::size_t m = 0; m < std::min(report.models.size(), kMostLines); ++m) {
    Series series = mean_curve(report.models[m].name, report.models[m], 1, kRoc);
    series.dashed = m > 0;
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

std::span<const Section> curve_sections() {
  static constexpr Section kSections[] = {
      {.heading = "ROC and precision–recall",
       .applies = [](const TargetReport& report) { return report.scale == Scale::kNominal; },
       .body = [](const TargetReport& report) -> html::Body {
         return roc_chart(report) + precision_recall_chart(report);
       },
       .drawings = {{{"roc", roc_chart}, {"precision_recall", precision_recall_chart}}}}};
  return kSections;
}

}  // namespace coldframe::temporal
