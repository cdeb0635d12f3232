// Times to an event: survival of the exams that the model puts at different risk, and figures at
// each horizon.
#include <algorithm>
#include <cmath>

#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/metrics/survival/survival_metrics.h"
#include "train_temporal/report/report_charts.h"
#include "train_temporal/report/report_sections.h"
#include "train_temporal/report/report_text.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kRiskGroups = 3, kMostCalibrationGroups = 5, kExamsPerGroup = 10;
constexpr const char* kRiskNames[kRiskGroups] = {"lowest third of risk", "middle third",
                                                 "highest third"};

MetricSummary summary_of(const std::vector<MetricSummary>& summaries, Metric metric) {
  return *std::ranges::find(summaries, metric, &MetricSummary::metric);
}

HorizonFigures figures_at(const RunReport& report, std::size_t horizon) {
  std::vector<FoldScores> folds = report.models.front().folds;
  for (FoldScores& fold : folds) fold.exams = at_horizon(fold.exams, horizon);
  const auto summaries = summarize(leave_out_patients(folds, report.bootstrap.level));
  const ScoredExams all = pooled_by_repeat(folds).front().exams;
  const std::size_t groups =
      std::clamp<std::size_t>(all.size() / kExamsPerGroup, 1, kMostCalibrationGroups);
  return {all.horizons.front(), summary_of(summaries, Metric::kTimeAuroc),
          summary_of(summaries, Metric::kIntegratedBrier),
          calibration_at(outcomes_of(all), survival_of(all), all.horizons.front(), groups,
                         report.bootstrap.level)};
}

// Risks of one fold come from one model; the exams of each third are then taken together.
void divide_by_risk(SurvivalFigures& figures, const RunReport& report) {
  const std::vector<FoldScores>& folds = report.models.front().folds;
  std::vector<double> time[kRiskGroups], all_times;
  std::vector<int> event[kRiskGroups], all_events;
  std::vector<std::size_t> group_of;
  for (const FoldScores& fold : folds) {
    if (fold.repeat != folds.front().repeat) continue;
    const auto groups = groups_by(risks_of(fold.exams), kRiskGroups);
    for (std::size_t i = 0; i < groups.size(); ++i) {
      time[groups[i]].push_back(fold.exams.number[i]);
      event[groups[i]].push_back(fold.exams.label[i]);
      all_times.push_back(fold.exams.number[i]);
      all_events.push_back(fold.exams.label[i]);
      group_of.push_back(groups[i]);
    }
  }
  figures.test = log_rank({all_times, all_events}, group_of, kRiskGroups);
  for (std::size_t g = 0; g < kRiskGroups; ++g) {
    if (time[g].empty()) continue;
    figures.groups.push_back({kRiskNames[g], time[g].size(),
                              static_cast<std::size_t>(std::ranges::count(event[g], 1)),
                              survival_curve({time[g], event[g]}, report.bootstrap.level)});
  }
}

// The corners of a step function.
html::Series steps_of(const RiskGroup& group) {
  html::Series series{group.name, {0.0}, {1.0}, {1.0}, {1.0}};
  const auto add = [&](double x, double y, double low, double high) {
    series.x.push_back(x);
    series.y.push_back(y);
    series.low.push_back(low);
    series.high.push_back(high);
  };
  for (std::size_t i = 0; i < group.curve.time.size(); ++i) {
    add(group.curve.time[i], series.y.back(), series.low.back(), series.high.back());
    add(group.curve.time[i], group.curve.survival[i], group.curve.low[i], group.curve.high[i]);
  }
  return series;
}

std::string p_text(double p) {
  return p < 0.001 ? "< 0.001" : "= " + fixed(p, 3);
}

std::string log_rank_text(const LogRank& test) {
  if (test.freedom == 0) return "log-rank test undefined";
  return concat("log-rank test: χ² = ", fixed(test.statistic, 2), " with ", test.freedom,
                " degrees of freedom, p ", p_text(test.p));
}

// Greenwood's variance is 0 where all are without an event, or none is.
std::string share_text(double share, double low, double high) {
  if (low == high) return fixed(share, 3);
  return concat(fixed(share, 3), " [", fixed(low, 3), ", ", fixed(high, 3), "]");
}

// Counts the exams that are without an event and still followed beyond the horizon.
std::size_t followed_beyond(const KaplanMeier& curve, double horizon) {
  const std::size_t step = curve.step_at(horizon);
  const std::size_t next = step == curve.time.size() ? 0 : step + 1;
  return next < curve.time.size() ? curve.at_risk[next] : 0;
}

std::string survival_text(const KaplanMeier& curve, double horizon) {
  const std::size_t step = curve.step_at(horizon);
  const bool begun = step < curve.time.size();
  return concat(
      begun ? share_text(curve.survival[step], curve.low[step], curve.high[step]) : fixed(1, 3),
      ", ", followed_beyond(curve, horizon), " followed");
}

std::string groups_section(const RunReport& report) {
  const SurvivalFigures& figures = report.survival;
  std::vector<std::string> header = {"", rows_name(report), "events"};
  for (const HorizonFigures& at : figures.horizons)
    header.push_back(concat("without an event at ", exact(at.horizon)));
  std::vector<std::vector<std::string>> rows;
  for (const RiskGroup& group : figures.groups) {
    rows.push_back({group.name, concat(group.exams), concat(group.events)});
    for (const HorizonFigures& at : figures.horizons)
      rows.back().push_back(survival_text(group.curve, at.horizon));
  }
  return survival_chart(report) + html::table(header, rows) +
         paragraph(concat("Kaplan and Meier's estimate, with intervals by Greenwood's variance; ",
                          log_rank_text(figures.test),
                          ". Thirds are taken within each held-out part. Both treat the ",
                          rows_name(report), " of a patient as independent."));
}

std::string horizons_section(const RunReport& report) {
  std::vector<std::vector<std::string>> rows;
  for (const HorizonFigures& at : report.survival.horizons)
    rows.push_back(
        {exact(at.horizon), interval_text(at.auroc.primary()), interval_text(at.brier.primary())});
  std::string body =
      html::table({report.target, "AUROC (cumulative, dynamic)", "Brier score"}, rows) +
      survival_calibration_chart(report);
  rows.clear();
  for (const HorizonFigures& at : report.survival.horizons)
    for (const SurvivalGroup& group : at.groups)
      rows.push_back({exact(at.horizon), concat(group.exams), concat(group.events),
                      fixed(group.predicted, 3),
                      share_text(group.observed, group.low, group.high)});
  return body +
         html::table(
             {report.target, rows_name(report), "events", "predicted without an event", "observed"},
             rows) +
         paragraph(
             "Who is censored before a horizon counts through the others, weighted by the inverse "
             "of the share that is still followed. Observed shares are Kaplan and Meier's, of "
             "groups of about equal size by the prediction.");
}

}  // namespace

std::string survival_chart(const RunReport& report) {
  html::Chart chart{concat("Without '", report.event, "', by predicted risk, with ",
                           fixed(100 * report.bootstrap.level, 0), " % intervals"),
                    report.target,
                    "share without an event",
                    {}};
  for (const RiskGroup& group : report.survival.groups) chart.series.push_back(steps_of(group));
  return line_chart(chart);
}

std::string survival_calibration_chart(const RunReport& report) {
  html::Chart chart{"Calibration at horizons",
                    "predicted probability of no event",
                    "observed share without an event",
                    {},
                    true,
                    true};
  for (const HorizonFigures& at : report.survival.horizons) {
    if (chart.series.size() == kMostLines) break;
    html::Series series{exact(at.horizon), {}, {}, {}, {}};
    for (const SurvivalGroup& group : at.groups) {
      series.x.push_back(group.predicted);
      series.y.push_back(group.observed);
      series.low.push_back(group.low);
      series.high.push_back(group.high);
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

void evaluate_survival(RunReport& report) {
  if (report.scale != Scale::kTime || report.models.empty()) return;
  const std::vector<FoldScores>& folds = report.models.front().folds;
  if (folds.empty()) return;
  for (std::size_t h = 0; h < folds.front().exams.horizons.size(); ++h)
    report.survival.horizons.push_back(figures_at(report, h));
  const bool finite = std::ranges::all_of(folds, [](const FoldScores& fold) {
    return std::ranges::all_of(fold.exams.probability, [](double p) { return std::isfinite(p); });
  });
  if (finite) divide_by_risk(report.survival, report);
}

void add_survival(html::Page& page, const RunReport& report, const std::string& of) {
  page.section("Survival by predicted risk" + of, groups_section(report));
  page.section("At horizons" + of, horizons_section(report));
}

Json survival_json(const RunReport& report) {
  const SurvivalFigures& figures = report.survival;
  Json json = {{"events", report.data.events},
               {"log_rank",
                {{"statistic", figures.test.statistic},
                 {"freedom", figures.test.freedom},
                 {"p", figures.test.p}}},
               {"horizons", Json::array()},
               {"risk_groups", Json::array()}};
  for (const HorizonFigures& at : figures.horizons) {
    Json groups = Json::array();
    for (const SurvivalGroup& group : at.groups)
      groups.push_back({{"exams", group.exams},
                        {"events", group.events},
                        {"predicted", group.predicted},
                        {"observed", group.observed},
                        {"low", group.low},
                        {"high", group.high}});
    json["horizons"].push_back({{"at", at.horizon},
                                {"auroc", to_json(at.auroc)},
                                {"brier", to_json(at.brier)},
                                {"calibration", groups}});
  }
  for (const RiskGroup& group : figures.groups) {
    Json entry = {{"name", group.name}, {"exams", group.exams}, {"events", group.events}};
    for (const HorizonFigures& at : figures.horizons) {
      entry["survival"].push_back(group.curve.at(at.horizon));
      entry["followed"].push_back(followed_beyond(group.curve, at.horizon));
    }
    json["risk_groups"].push_back(std::move(entry));
  }
  return json;
}

std::string survival_summary(const RunReport& report) {
  if (report.scale != Scale::kTime) return {};
  std::string text;
  for (const HorizonFigures& at : report.survival.horizons)
    text += concat("  ", padded("at " + exact(at.horizon), 22), "AUROC ",
                   interval_text(at.auroc.primary()), "   Brier score ",
                   interval_text(at.brier.primary()), "\n");
  return text + concat("  thirds by risk: ", log_rank_text(report.survival.test), "\n");
}

}  // namespace coldframe::temporal
