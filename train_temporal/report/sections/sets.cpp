// How often sets of classes, or intervals of numbers, held the truth of held-out exams.
#include <string>
#include <vector>

#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {
namespace {

constexpr double kLevelOfSets = 0.9;
constexpr const char* kSetsTitle = "sets of 90 %";

// Sets of a fold rest on the others of its repeat.
bool has_sets(const TargetReport& report) {
  const std::vector<FoldScores>& folds = report.models.front().folds;
  return report.scale != Scale::kTime && folds.size() > 1 && folds[0].repeat == folds[1].repeat;
}

void evaluate_sets(TargetReport& report) {
  report.sets = coverage_of_sets(report.models.front().folds, report.classes.size(), kLevelOfSets,
                                 report.bootstrap.level, report.subgroups);
  if (report.held_out_by.empty()) return;
  const auto widen = [&](SetFigures& figures) {
    widen_by_groups(figures.coverage, figures.per_fold, report.bootstrap.level, {0, 1});
  };
  widen(report.sets->all);
  for (SetFigures& figures : report.sets->of_class) widen(figures);
}

// Calls `take` with all figures: those of all exams, of each class and of each subgroup.
template <class Take>
void for_figures(const TargetReport& report, const Take& take) {
  if (!report.sets || report.sets->too_few) return;
  const SetCoverage& sets = *report.sets;
  take("", "all", sets.all);
  for (std::size_t c = 0; c < sets.of_class.size(); ++c)
    take(report.target, report.classes[c], sets.of_class[c]);
  for (std::size_t i = 0; i < sets.of_group.size(); ++i)
    for (std::size_t v = 0; v < sets.of_group[i].size(); ++v)
      take(report.subgroups[i].column, report.subgroups[i].values[v], sets.of_group[i][v]);
}

std::string too_few_text(const TargetReport& report) {
  const TooFewPatients& few = *report.sets->too_few;
  const bool classes = !report.classes.empty();
  return concat("None: they need ", plural(few.needed, "patient"), classes ? " of each class" : "",
                " outside each held-out part, and ",
                classes ? concat("'", report.classes[few.of_class], "' has ") : "there are ",
                few.patients, " outside one.");
}

html::Body sets_section(const TargetReport& report) {
  if (!report.sets) return {};
  if (report.sets->too_few) return html::paragraph(too_few_text(report));
  html::Rows rows;
  std::vector<std::string> below;
  for_figures(report,
              [&](const std::string& column, const std::string& value, const SetFigures& figures) {
                const std::string name = column.empty() ? value : concat(column, " = ", value);
                if (figures.coverage.high.value < kLevelOfSets) below.push_back(name);
                rows.push_back({name, concat(figures.exams), concat(figures.patients),
                                interval_text(figures.coverage),
                                figures.patients == 0 ? "–" : fixed(figures.size, 2)});
              });
  const bool classes = !report.classes.empty();
  return figures_table({"", "exams", "patients", "held the truth",
                        classes ? "classes in a set" : "width of an interval"},
                       rows) +
         html::paragraph(concat(
             classes ? "A set has the classes that suit an exam as well as they suit all but 10 % "
                       "of the held-out patients who have them"
                     : "An interval reaches as far as the errors of all but 10 % of the held-out "
                       "patients",
             " (conformal prediction", classes ? ", class by class" : "",
             "). A patient counts once. Sets of a fold rest on the predictions of the other "
             "folds, intervals are by patient. Where folds are alike, about 90 % of all "
             "exams are held by construction; for a class or a group where fewer are, sets promise "
             "too much",
             below.empty() ? "" : ", as certainly for ", join(below, ", "),
             ". `coldframe predict --sets 0.9` gives those of new exams."));
}

void add_sets(Json& summary, const TargetReport& report) {
  if (!report.sets) return;
  Json& json = summary["sets"] = {{"level", report.sets->level}, {"coverage", Json::array()}};
  if (const auto& few = report.sets->too_few)
    json["too_few"] = {{"patients", few->patients}, {"needed", few->needed}};
  for_figures(report,
              [&](const std::string& column, const std::string& value, const SetFigures& figures) {
                json["coverage"].push_back({{"column", column},
                                            {"value", value},
                                            {"exams", figures.exams},
                                            {"patients", figures.patients},
                                            {"held", to_json(figures.coverage)},
                                            {"mean_size", figures.size}});
              });
}

// Beside those of subgroups, as other figures of these.
std::string sets_text(const TargetReport& report) {
  if (report.subgroups.empty()) return "";
  std::string text;
  for_figures(report,
              [&](const std::string& column, const std::string& value, const SetFigures& figures) {
                if (column == report.target) return;
                text += concat(text.empty() ? kSetsTitle : ";", text.empty() ? " held " : " ",
                               text.empty() ? "" : concat(column, " ", printable(value), " "),
                               interval_text(figures.coverage));
              });
  return text.empty() ? "" : text + "\n";
}

void add_set_figures(FigureTable& table, const TargetReport& report) {
  for_figures(
      report, [&](const std::string& column, const std::string& value, const SetFigures& figures) {
        table.add({report.models.front().name, column, value, kSetsTitle}, "coverage",
                  figures.coverage);
        table.add({report.models.front().name, column, value, kSetsTitle}, "size", figures.size);
      });
}

}  // namespace

std::span<const Section> set_sections() {
  static constexpr Section kSections[] = {{.heading = "Sets that hold the truth in 90 %",
                                           .applies = has_sets,
                                           .body = sets_section,
                                           .evaluate = evaluate_sets,
                                           .json = add_sets,
                                           .text = sets_text,
                                           .figures = add_set_figures}};
  return kSections;
}

}  // namespace coldframe::temporal
