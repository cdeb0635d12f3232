// The exams of a report, and what became of those that were left out.
#include <algorithm>

#include "common/charts/flow_chart.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/charts.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

namespace {

std::vector<std::pair<std::string, std::size_t>> left_out(const ExamFlow& flow) {
  return {{"could not be read", flow.failed},
          {"without a readable frame", flow.without_frame},
          {"without a label", flow.without_label},
          {"in no part of the split", flow.in_no_part}};
}

// "38–41 exams" over the folds, "40 exams" where all have as many.
std::string range_of(const std::vector<FoldChoice>& folds, std::size_t FoldChoice::*count,
                     const std::string& what) {
  const auto [least, most] = std::ranges::minmax(folds, {}, count);
  if (least.*count == most.*count) return plural(most.*count, what);
  return concat(least.*count, "–", plural(most.*count, what));
}

// The parts of the split, where they are of the exams used: those of a fold are of all targets.
void add_arms(html::FlowChart& flow, const RunReport& report) {
  const std::vector<FoldChoice>& folds = report.choices;
  const auto beyond = [&](const FoldChoice& fold) {
    return fold.train_exams + fold.validation_exams + fold.test_exams > report.data.flow.used;
  };
  if (folds.empty() || std::ranges::any_of(folds, beyond)) return;
  const std::size_t repeats = folds.back().repeat + 1;
  if (folds.size() > 1)
    flow.division = concat("in each of ", folds.size() / repeats, " folds",
                           repeats > 1 ? concat(", ", repeats, " times") : "");
  const auto add = [&](const char* name, std::size_t FoldChoice::*exams,
                       std::size_t FoldChoice::*patients) {
    flow.arms.push_back(
        {name, range_of(folds, exams, "exam"), "of " + range_of(folds, patients, "patient")});
  };
  add("training", &FoldChoice::train_exams, &FoldChoice::train_patients);
  add("validation", &FoldChoice::validation_exams, &FoldChoice::validation_patients);
  add("held out", &FoldChoice::test_exams, &FoldChoice::test_patients);
}

}  // namespace

std::string flow_chart(const RunReport& report) {
  const ExamFlow& exams = report.data.flow;
  html::FlowChart flow{
      "Flow of exams",
      {plural(exams.found, "exam") + " found"},
      {plural(exams.found - exams.used, "exam") + " left out"},
      {plural(exams.used, "exam") + " used", "of " + plural(report.data.patients, "patient")}};
  for (const auto& [what, count] : left_out(exams))
    flow.left_out.push_back(concat(count, " ", what));
  add_arms(flow, report);
  return html::flow_chart(flow);
}

void add_cohort(html::Page& page, const RunReport& report, const std::string& of) {
  const ExamFlow& flow = report.data.flow;
  if (flow.found > 0) {
    std::vector<std::vector<std::string>> rows = {{"found", concat(flow.found)}};
    for (const auto& [what, count] : left_out(flow)) rows.push_back({"− " + what, concat(count)});
    rows.push_back(
        {concat("used, of ", plural(report.data.patients, "patient")), concat(flow.used)});
    page.section("Flow of exams" + of, flow_chart(report) + html::table({"", "exams"}, rows));
  }
  if (report.characteristics.empty()) return;
  std::vector<std::string> header = {"", ""};
  const std::vector<std::string> columns = characteristic_columns(report);
  header.insert(header.end(), columns.begin(), columns.end());
  std::vector<std::vector<std::string>> rows;
  for (const Characteristic& one : report.characteristics) {
    rows.push_back({one.column, one.row});
    rows.back().insert(rows.back().end(), one.cells.begin(), one.cells.end());
  }
  page.section("Characteristics by class" + of,
               html::table(header, rows) +
                   paragraph("Of the exams used; shares are of the exams that have a value."));
}

std::vector<std::pair<std::string, std::size_t>> steps_of(const ExamFlow& flow) {
  return {{"found", flow.found},
          {"failed", flow.failed},
          {"without_frame", flow.without_frame},
          {"without_label", flow.without_label},
          {"in_no_part", flow.in_no_part},
          {"used", flow.used}};
}

Json characteristics_json(const RunReport& report) {
  Json json = Json::array();
  for (const Characteristic& one : report.characteristics)
    json.push_back({{"column", one.column}, {"row", one.row}, {"cells", one.cells}});
  return json;
}

}  // namespace coldframe::temporal
