// Times to an event: survival of the exams that the model puts at different risk, and figures at
// each horizon.
#include <algorithm>
#include <cmath>

#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

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

std::string log_rank_text(const SurvivalFigures& figures) {
  const LogRank& test = figures.test;
  if (!figures.untested.empty()) return concat("no log-rank test: ", figures.untested);
  return concat("log-rank test: χ² = ", fixed(test.statistic, 2), " with ", test.freedom,
                " degrees of freedom, p ", test.p < 0.001 ? "" : "= ", p_text(test.p));
}

std::string share_text(const SurvivalEstimate& share) {
  if (std::isnan(share.value)) return "–";
  if (share.value == 1) return "1.000, no event so far";
  if (!share.has_interval()) return concat(fixed(share.value, 3), ", no interval");
  return concat(fixed(share.value, 3), " [", fixed(share.low, 3), ", ", fixed(share.high, 3), "]");
}

// Bounds are undefined where they are none.
Estimate estimate_of(const SurvivalEstimate& share) {
  const auto known = [](double x, bool is) {
    return is ? MetricValue::of(x) : MetricValue::none("");
  };
  return {known(share.value, !std::isnan(share.value)), known(share.low, share.has_interval()),
          known(share.high, share.has_interval())};
}

// Appended to a rank metric at a horizon if, unlike others, it is not a mean over folds.
const char* pooled_mark(const TargetReport& report, const MetricSummary& summary) {
  return report.models.front().folds.size() > 1 && !summary.by_fold ? " (folds together)" : "";
}

// Counts the exams that are without an event and still followed beyond the horizon.
std::size_t followed_beyond(const KaplanMeier& curve, double horizon) {
  const std::size_t step = curve.step_at(horizon);
  const std::size_t next = step == curve.time.size() ? 0 : step + 1;
  return next < curve.time.size() ? curve.at_risk[next] : 0;
}

std::string survival_text(const KaplanMeier& curve, double horizon) {
  return concat(share_text(curve.share_at(horizon)), ", ", followed_beyond(curve, horizon),
                " followed");
}

std::string repeats_text(const TargetReport& report) {
  const std::vector<FoldScores>& folds = report.models.front().folds;
  return folds.front().repeat == folds.back().repeat
             ? ""
             : " Of several repeats of the split the first is shown here.";
}

std::string survival_chart(const TargetReport& report) {
  html::Chart chart{concat("Without '", report.event, "', by risk [", level_text(report), "]"),
                    report.target, "share without an event"};
  for (const RiskGroup& group : report.survival.groups) chart.series.push_back(steps_of(group));
  return line_chart(chart);
}

std::string survival_calibration_chart(const TargetReport& report) {
  html::Chart chart{"Calibration at horizons", "predicted probability of no event",
                    "observed fraction without an event"};
  chart.unit_square = chart.diagonal = true;
  for (const HorizonFigures& at : report.survival.horizons) {
    if (chart.series.size() == kMaxLines) break;
    html::Series series{exact(at.horizon)};
    for (const SurvivalGroup& group : at.groups) {
      if (std::isnan(group.observed.value)) continue;
      series.x.push_back(group.predicted);
      series.y.push_back(group.observed.value);
      series.low.push_back(group.observed.low);
      series.high.push_back(group.observed.high);
    }
    chart.series.push_back(std::move(series));
  }
  return line_chart(chart);
}

html::Body groups_section(const TargetReport& report) {
  const SurvivalFigures& figures = report.survival;
  std::vector<std::string> header = {"", rows_name(report), "events"};
  for (const HorizonFigures& at : figures.horizons)
    header.push_back(concat("without an event at ", exact(at.horizon)));
  html::Rows rows;
  for (const RiskGroup& group : figures.groups) {
    rows.push_back({group.name, concat(group.exams), concat(group.events)});
    for (const HorizonFigures& at : figures.horizons)
      rows.back().push_back(survival_text(group.curve, at.horizon));
  }
  return survival_chart(report) + html::table(header, rows) +
         html::paragraph(
             concat("Kaplan and Meier's estimate, with intervals by Greenwood's variance, which "
                    "takes the ",
                    rows_name(report), " of a patient as independent; ", log_rank_text(figures),
                    figures.undivided.empty() ? ". Thirds are taken within each held-out part."
                                              : ". Not divided by risk: " + figures.undivided + ".",
                    repeats_text(report)));
}

html::Body horizons_section(const TargetReport& report) {
  html::Rows rows;
  for (const HorizonFigures& at : report.survival.horizons)
    rows.push_back({exact(at.horizon),
                    interval_text(at.auroc.primary()) + pooled_mark(report, at.auroc),
                    interval_text(at.brier.primary()) + pooled_mark(report, at.brier)});
  html::Body body =
      html::table({report.target, "AUROC (cumulative, dynamic)", "Brier score"}, rows) +
      survival_calibration_chart(report);
  rows.clear();
  for (const HorizonFigures& at : report.survival.horizons)
    for (const SurvivalGroup& group : at.groups)
      rows.push_back({exact(at.horizon), concat(group.exams), concat(group.events),
                      fixed(group.predicted, 3), share_text(group.observed)});
  return body +
         html::table(
             {report.target, rows_name(report), "events", "predicted without an event", "observed"},
             rows) +
         html::paragraph(concat(
             "Who is censored before a horizon counts through the others, weighted by the inverse "
             "of the fraction that is still followed. Observed fractions are Kaplan and Meier's, "
             "of "
             "groups of about equal size by the prediction; their intervals take the ",
             rows_name(report),
             " of a patient as independent, and there is none (–) where nobody of a group is "
             "followed up to the horizon.",
             repeats_text(report)));
}

void evaluate_survival(TargetReport& report) {
  report.survival =
      survival_figures(report.models.front().folds, report.bootstrap.level, rows_name(report));
}

void add_survival(Json& summary, const TargetReport& report) {
  const SurvivalFigures& figures = report.survival;
  const LogRank& test = figures.test;
  Json& json = summary["survival"] = {{"events", report.data.events},
                                      {"log_rank", nullptr},
                                      {"horizons", Json::array()},
                                      {"risk_groups", Json::array()}};
  if (test.freedom > 0)
    json["log_rank"] = {{"statistic", test.statistic}, {"freedom", test.freedom}, {"p", test.p}};
  if (!figures.untested.empty()) json["no_log_rank"] = figures.untested;
  if (!figures.undivided.empty()) json["undivided"] = figures.undivided;
  for (const HorizonFigures& at : figures.horizons) {
    Json groups = Json::array();
    for (const SurvivalGroup& group : at.groups) {
      const Estimate observed = estimate_of(group.observed);
      groups.push_back({{"exams", group.exams},
                        {"events", group.events},
                        {"predicted", group.predicted},
                        {"observed", json_number(observed.value.value)},
                        {"low", json_number(observed.low.value)},
                        {"high", json_number(observed.high.value)}});
    }
    json["horizons"].push_back({{"at", at.horizon},
                                {"auroc", to_json(at.auroc)},
                                {"brier", to_json(at.brier)},
                                {"calibration", groups}});
  }
  for (const RiskGroup& group : figures.groups) {
    Json entry = {{"name", group.name}, {"exams", group.exams}, {"events", group.events}};
    for (const HorizonFigures& at : figures.horizons) {
      const Estimate share = estimate_of(group.curve.share_at(at.horizon));
      entry["survival"].push_back(json_number(share.value.value));
      entry["low"].push_back(json_number(share.low.value));
      entry["high"].push_back(json_number(share.high.value));
      entry["followed"].push_back(followed_beyond(group.curve, at.horizon));
    }
    json["risk_groups"].push_back(std::move(entry));
  }
}

std::string survival_summary(const TargetReport& report) {
  std::string text;
  for (const HorizonFigures& at : report.survival.horizons)
    text +=
        concat("  ", padded("at " + exact(at.horizon), 22), "AUROC ",
               interval_text(at.auroc.primary()), pooled_mark(report, at.auroc), "   Brier score ",
               interval_text(at.brier.primary()), pooled_mark(report, at.brier), "\n");
  if (report.survival.groups.empty()) return text;
  return text + concat("  thirds by risk: ", log_rank_text(report.survival), "\n");
}

void add_survival_figures(FigureTable& table, const TargetReport& report) {
  const std::string& main = report.models.front().name;
  for (const HorizonFigures& at : report.survival.horizons) {
    const std::string where = concat("at ", exact(at.horizon));
    table.add({main, "", "", where}, "auroc", at.auroc.primary());
    table.add({main, "", "", where}, "brier", at.brier.primary());
    for (const RiskGroup& group : report.survival.groups)
      table.add({main, "", group.name, where}, "survival",
                estimate_of(group.curve.share_at(at.horizon)));
    for (const SurvivalGroup& group : at.groups)
      table.add({main, "", concat("predicted ", exact(group.predicted)), where}, "survival",
                estimate_of(group.observed));
  }
  if (const LogRank& test = report.survival.test; test.freedom > 0)
    table.add({main, "", "", "log-rank test of thirds by risk"}, "p", test.p);
}

bool is_of_times(const TargetReport& report) {
  return report.scale == Scale::kTime;
}

}  // namespace

std::span<const Section> survival_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Survival by predicted risk",
       .applies = is_of_times,
       .body = groups_section,
       .evaluate = evaluate_survival,
       .json = add_survival,
       .text = survival_summary,
       .figures = add_survival_figures,
       .drawings = {{{"survival", survival_chart}}}},
      {.heading = "At horizons",
       .applies = is_of_times,
       .body = horizons_section,
       .drawings = {{{"calibration", survival_calibration_chart}}}}};
  return kSections;
}

}  // namespace coldframe::temporal
