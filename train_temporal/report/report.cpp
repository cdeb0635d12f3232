#include "train_temporal/report/report.h"

#include <algorithm>
#include <cmath>

#include "common/charts/html.h"
#include "common/text/text.h"
#include "train_temporal/metrics/metric_table.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/charts.h"
#include "train_temporal/report/sections/sections.h"
#include "train_temporal/report/study.h"

namespace coldframe::temporal {
namespace {

std::string bullets(const std::vector<std::string>& lines) {
  std::string body = "<ul>\n";
  for (const std::string& line : lines) body += "<li>" + html::escape(line) + "</li>\n";
  return body + "</ul>\n";
}

std::string about_figures(const RunReport& report) {
  if (report.scale == Scale::kNumber) {
    return "R² is 0 for a model that always says the mean, 1 for one that is always right; MAE and "
           "RMSE are in the unit of the target.";
  }
  if (report.scale == Scale::kTime) {
    return "Harrell's and Uno's C and the AUROC over time are 0.5 by chance and 1 for risks in the "
           "order of events; Uno's C takes events before the last horizon, weighted against "
           "censoring. The Brier score is integrated over the horizons, 0 being best.";
  }
  if (report.scale == Scale::kOrdinal) {
    return "Decisions are medians of the predicted distribution over classes. Quadratic kappa is 0 "
           "by chance; the MAE is in steps between classes. A calibrated model has ECE 0.";
  }
  if (report.classes.size() > 2) {
    return "AUROC, AUPRC and F1 are means over classes against the rest. Kappa is Cohen's, 0 by "
           "chance. A calibrated model has ECE 0.";
  }
  const auto& own = report.questions.threshold;
  return concat("Sensitivity, specificity, F1, accuracy and kappa are at the threshold ",
                own ? exact(*own) + " that was given" : "that the validation part chose (Youden)",
                ". A calibrated model has ECE 0, slope 1 and intercept 0.");
}

std::string result_section(const RunReport& report) {
  const ModelResult& main = report.models.front();
  std::string body;
  for (const std::string& line : verdict(report)) body += paragraph(line);
  const bool one_part = main.folds.size() == 1;
  const std::string level = fixed(100 * report.bootstrap.level, 0);
  std::vector<std::string> header = {"", concat(folds_text(main), " [", level, " % interval]")};
  if (!one_part) {
    header.push_back("SD over folds");
    header.push_back(concat("all folds together [", level, " % interval]"));
  }
  std::vector<std::vector<std::string>> rows;
  for (const MetricSummary& summary : main.summary) {
    std::vector<std::string> row = {
        std::string(metric_title(summary.metric)),
        one_part || summary.by_fold ? interval_text(summary.primary()) : std::string("–")};
    if (!one_part) {
      const bool spread = summary.by_fold && !std::isnan(summary.sd_over_folds);
      row.push_back(spread ? fixed(summary.sd_over_folds, 3) : "–");
      row.push_back(interval_text(summary.pooled));
    }
    rows.push_back(std::move(row));
  }
  body += html::table(header, rows);
  body += paragraph(concat(
      "Intervals are score intervals by the spread that leaving out each patient in turn shows. ",
      one_part || (report.scale != Scale::kNominal && report.scale != Scale::kTime) ? ""
      : report.scale == Scale::kTime
          ? "Ranks compare exams of one fold, whose risks come from one model, and are means over "
            "the folds that have them, where half of the folds do, else of all folds together as "
            "the Brier score is. "
          : "Ranks compare exams of one fold, whose scores come from one model: AUROC and AUPRC "
            "are means over folds. Other figures are of all folds together. ",
      about_figures(report)));
  return body;
}

std::string models_section(const RunReport& report) {
  const std::vector<Metric> metrics = metrics_with(&MetricRow::compared, report.scale);
  std::vector<std::string> header = {"model"};
  for (Metric metric : metrics) header.emplace_back(metric_title(metric));
  header.push_back(
      concat(metric_title(metrics.front()), " of ", report.models.front().name, " − this"));
  std::vector<std::vector<std::string>> rows;
  for (const ModelResult& model : report.models) {
    std::vector<std::string> row = {model_label(model) + model.about};
    for (Metric metric : metrics) {
      const MetricSummary* summary = find_metric(model, metric);
      row.push_back(summary ? interval_text(summary->primary()) : "–");
    }
    const PairedDifference* ahead = find_difference(model, metrics.front());
    row.push_back(ahead ? difference_text(ahead->primary()) : "–");
    rows.push_back(std::move(row));
  }
  return html::table(header, rows) +
         paragraph(
             "Differences are paired: both models on the same patients, each left out of both in "
             "turn. An interval that excludes 0 is a difference that chance among patients does "
             "not explain.") +
         (report.scale == Scale::kNominal ? model_roc_chart(report) : "");
}

std::string classes_table(const RunReport& report) {
  const ScoredExams all = pooled_exams(report.models.front());
  const auto counts = confusion_matrix(all);
  std::vector<std::vector<std::string>> rows;
  for (std::size_t c = 0; c < report.classes.size(); ++c) {
    std::size_t truly = 0, decided = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      truly += counts[c][k];
      decided += counts[k][c];
    }
    const auto share = [&](std::size_t of) {
      return of == 0 ? std::string("–")
                     : fixed(static_cast<double>(counts[c][c]) / static_cast<double>(of), 3);
    };
    const OneVsRest rest = one_vs_rest(all, c);
    rows.push_back({report.classes[c], concat(truly), share(truly), share(decided),
                    figure_text(auroc(rest.score, rest.positive))});
  }
  return html::table(
      {"class", concat("held-out ", rows_name(report)), "recall", "precision", "AUROC vs the rest"},
      rows);
}

std::string decisions_section(const RunReport& report) {
  std::string body = confusion_chart(report) + score_chart(report);
  if (report.classes.size() > 2 && report.scale == Scale::kNominal) body += classes_table(report);
  return body;
}

std::string data_section(const RunReport& report) {
  const DataOverview& data = report.data;
  KeyValues pairs = {{"target", report.target},
                     {"task", report.task + (report.per_frame ? ", per frame" : "")},
                     {"exams", concat(data.exams)},
                     {"patients", concat(data.patients)},
                     {"without a label or a readable frame", concat(data.unlabeled)}};
  if (!data.frames_per_exam.empty()) {
    std::vector<std::size_t> sorted = data.frames_per_exam;
    std::ranges::sort(sorted);
    pairs.emplace_back("frames per exam", concat(sorted.front(), " to ", sorted.back(), ", median ",
                                                 sorted[sorted.size() / 2]));
  }
  if (report.per_frame) pairs.emplace_back("frames without a label", concat(data.masked_frames));
  const bool times = report.scale == Scale::kTime;
  if (times) pairs.emplace_back(concat("with '", report.event, "'"), concat(data.events));
  if (times || report.scale == Scale::kNumber) {
    return html::key_values(pairs) +
           html::histogram(times ? "Times of events and of censoring" : "Labels", report.target,
                           labels_name(report), data.numbers) +
           frames_chart(report);
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<html::Bar> bars;
  for (std::size_t c = 0; c < data.exams_per_class.size(); ++c) {
    const auto& [name, exams] = data.exams_per_class[c];
    const bool positive = report.classes.size() == 2 && name == report.classes[1];
    rows.push_back({name + (positive ? " (positive)" : ""), concat(exams),
                    c < data.patients_per_class.size() ? concat(data.patients_per_class[c]) : "–"});
    bars.push_back({name, static_cast<double>(exams)});
  }
  return html::key_values(pairs) + html::table({"class", labels_name(report), "patients"}, rows) +
         html::bar_chart(report.per_frame ? "Frames by class" : "Exams by class", bars, "") +
         frames_chart(report);
}

std::string split_section(const RunReport& report) {
  const Metric metric = main_metric(report.scale);
  const bool nominal = report.scale == Scale::kNominal;
  std::vector<std::vector<std::string>> rows;
  for (std::size_t f = 0; f < report.choices.size(); ++f) {
    const FoldChoice& choice = report.choices[f];
    const auto part = [](std::size_t exams, std::size_t patients) {
      return concat(exams, " / ", patients);
    };
    rows.push_back({concat(choice.repeat), concat(choice.fold),
                    part(choice.train_exams, choice.train_patients),
                    part(choice.validation_exams, choice.validation_patients),
                    part(choice.test_exams, choice.test_patients),
                    nominal ? fixed(choice.temperature, 2) : "–",
                    nominal && report.classes.size() == 2 ? fixed(choice.threshold, 3) : "–"});
    const MetricSummary* figure = find_metric(report.models.front(), metric);
    const bool known = figure != nullptr && f < figure->per_fold.size();
    rows.back().push_back(known ? figure_text(figure->per_fold[f]) : "–");
  }
  return paragraph(concat("Parts are disjoint by patient (", report.split, "). Early stopping",
                          nominal ? ", temperature and threshold see" : " sees",
                          " the validation part only; the held-out part is used once, for the "
                          "figures above.")) +
         html::table({"repeat", "fold", "training: exams / patients", "validation", "held out",
                      "temperature", "threshold", std::string(metric_title(metric))},
                     rows);
}

}  // namespace

void add_result(html::Page& page, const RunReport& report, const std::string& of) {
  std::vector<std::string> warnings = data_warnings(report);
  warnings.insert(warnings.begin(), report.warnings.begin(), report.warnings.end());
  if (!report.models.empty()) page.section("Result" + of, result_section(report));
  if (!warnings.empty()) page.section("Warnings" + of, bullets(warnings));
  if (report.models.size() > 1) page.section("Models and controls" + of, models_section(report));
  if (report.models.empty()) return;
  if (report.scale == Scale::kTime) return add_survival(page, report, of);
  if (report.scale == Scale::kNumber) {
    page.section("Predictions" + of, scatter_chart(report));
    return;
  }
  if (report.scale == Scale::kNominal) {
    page.section("ROC and precision–recall" + of,
                 roc_chart(report) + precision_recall_chart(report));
  }
  page.section("Decisions" + of, decisions_section(report));
  page.section("Calibration" + of, reliability_chart(report));
}

void add_shift(html::Page& page, const RunReport& report) {
  if (report.shift.empty()) return;
  std::vector<std::vector<std::string>> rows;
  for (const CohortShift& shift : report.shift) {
    rows.push_back({shift.trait, concat(shift.flagged, " of ", shift.judged),
                    shift.judged > 0 ? fixed(shift.median_rank, 3) : std::string("–")});
  }
  page.section(
      "Shift against the training cohort",
      html::table({"", "unlike the training data", "median rank"}, rows) +
          paragraph(concat(
              "Each exam is ranked by its distance from the training's among the exams "
              "that the training held out: of a cohort like it ",
              fixed(100 * report.shift_rate, 0), " % are unlike, and the median rank is 0.5.")));
}

void add_data(html::Page& page, const RunReport& report, const std::string& of) {
  page.section("Data" + of, data_section(report));
  if (!report.choices.empty()) page.section("Splits" + of, split_section(report));
}

void add_run(html::Page& page, const RunReport& report) {
  if (!report.configuration.empty()) {
    page.section("Configuration", html::key_values(report.configuration));
  }
  if (!report.recipe.empty()) page.section("Features", html::key_values(report.recipe));
  if (!report.resources.empty()) {
    page.section("Time and memory", html::key_values(report.resources) + machine_charts(report));
  }
}

std::string render_report(const RunReport& report) {
  return render_report(StudyReport{{report}, {}});
}

}  // namespace coldframe::temporal
