// Each class against the rest, where there are several.
#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

#include "common/text/table.h"
#include "common/text/text.h"
#include "train_temporal/evaluate/classes.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

// Of two classes the result has them: recall is sensitivity and specificity, and ranks are those of
// both.
bool has_several_classes(const TargetReport& report) {
  return has_classes(report) && report.classes.size() > 2;
}

void evaluate_classes(TargetReport& report) {
  const ModelResult& main = report.models.front();
  report.by_class = figures_of_classes(main.folds, main.summary, report.bootstrap.level);
}

// Where its figure is not taken as the header says: " (4 of 5 folds)".
std::string taken_note(const ModelResult& main, const MetricSummary& figure) {
  if (!figure.metric->over_folds || main.folds.size() == 1) return {};
  if (!figure.by_fold) return " (all folds together)";
  return figure.folds_with_it() == figure.per_fold.size() ? ""
                                                          : concat(" (", folds_of(figure), ")");
}

std::string figure_of(const ModelResult& main, const MetricSummary& figure) {
  return interval_text(figure.primary()) + taken_note(main, figure);
}

html::Body classes_section(const TargetReport& report) {
  if (report.by_class.empty()) return {};
  const ModelResult& main = report.models.front();
  std::vector<std::string> header = {"class", rows_name(report), "patients"};
  for (const MetricSummary& figure : report.by_class.front().summary)
    header.emplace_back(figure.metric->title);
  html::Rows rows;
  for (std::size_t c = 0; c < report.by_class.size(); ++c) {
    const FiguresOfClass& own = report.by_class[c];
    rows.push_back({report.classes[c], concat(own.exams), concat(own.patients)});
    for (const MetricSummary& figure : own.summary) rows.back().push_back(figure_of(main, figure));
  }
  const std::string ranks = main.folds.size() == 1
                                ? ""
                                : "AUROC and AUPRC are means over folds unless a row says "
                                  "otherwise, the other figures are of all folds together. ";
  return figures_table(header, rows) +
         html::paragraph(concat("Figures of ", main.name, ", with ", level_text(report),
                                " intervals by patient. ", ranks,
                                "The unweighted mean over the classes is the macro figure, where "
                                "each fold holds them all; that of recall is balanced accuracy."));
}

void add_classes(Json& summary, const TargetReport& report) {
  Json& json = summary["by_class"] = Json::array();
  for (std::size_t c = 0; c < report.by_class.size(); ++c) {
    const FiguresOfClass& own = report.by_class[c];
    Json metrics = Json::object();
    for (const MetricSummary& figure : own.summary)
      metrics[std::string(figure.metric->key)] = to_json(figure);
    json.push_back({{"class", report.classes[c]},
                    {"exams", own.exams},
                    {"patients", own.patients},
                    {"metrics", std::move(metrics)}});
  }
}

constexpr std::size_t kMaxClasses = 5;  // on the terminal

// Those with the lowest recall where they are many, in the order of classes.
std::vector<std::size_t> classes_shown(const TargetReport& report) {
  std::vector<std::size_t> shown(report.by_class.size());
  std::iota(shown.begin(), shown.end(), std::size_t{0});
  if (shown.size() <= kMaxClasses) return shown;
  const auto recall = [&](std::size_t c) {
    const MetricValue& of =
        find_metric(report.by_class[c].summary, metric_named("recall"))->primary().value;
    return of.defined() ? of.value : 2;
  };
  std::ranges::stable_sort(shown, {}, recall);
  shown.resize(kMaxClasses);
  std::ranges::sort(shown);
  return shown;
}

std::string classes_text(const TargetReport& report) {
  const std::vector<std::size_t> shown = classes_shown(report);
  std::string text = "Classes against the rest";
  if (shown.size() < report.by_class.size())
    text += concat(", the ", shown.size(), " of ", report.by_class.size(),
                   " with the lowest recall (the report has all)");
  text += "\n";
  std::size_t width = 8;
  for (const std::size_t c : shown) width = std::max(width, letters(printable(report.classes[c])));
  const ModelResult& main = report.models.front();
  for (const std::size_t c : shown) {
    const FiguresOfClass& own = report.by_class[c];
    const auto text_of = [&](const char* key) {
      return figure_of(main, *find_metric(own.summary, metric_named(key)));
    };
    text +=
        concat("  ", padded(printable(report.classes[c]), width + 2), "AUROC ",
               padded(text_of("auroc"), 24), " recall ", padded(text_of("recall"), 24), " ",
               own.exams, " ", rows_name(report), " of ", plural(own.patients, "patient"), "\n");
  }
  return text;
}

void add_class_figures(FigureTable& table, const TargetReport& report) {
  for (std::size_t c = 0; c < report.by_class.size(); ++c)
    table.add({report.models.front().name, report.target, report.classes[c],
               "this class against the rest"},
              report.by_class[c].summary);
}

}  // namespace

std::span<const Section> class_sections() {
  static constexpr Section kSections[] = {{.heading = "Each class against the rest",
                                           .applies = has_several_classes,
                                           .body = classes_section,
                                           .evaluate = evaluate_classes,
                                           .json = add_classes,
                                           .text = classes_text,
                                           .figures = add_class_figures}};
  return kSections;
}

}  // namespace coldframe::temporal
