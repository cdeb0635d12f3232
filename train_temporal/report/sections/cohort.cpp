// The exams of a report, and what became of those that were left out.
#include <algorithm>
#include <iterator>
#include <span>

#include "common/files/csv.h"
#include "common/text/text.h"
#include "train_temporal/report/report_text.h"
#include "train_temporal/report/sections/sections.h"

namespace coldframe::temporal {

namespace {

// The steps at which exams are lost, as files and as the page name them.
struct FlowStep {
  const char *key, *said;
  std::size_t ExamFlow::*exams;
};
constexpr FlowStep kFlowSteps[] = {
    {"found", "", &ExamFlow::found},
    {"failed", "could not be read", &ExamFlow::failed},
    {"without_frame", "without a readable frame", &ExamFlow::without_frame},
    {"without_label", "without a label", &ExamFlow::without_label},
    {"in_no_part", "in no part of the split", &ExamFlow::in_no_part},
    {"used", "", &ExamFlow::used}};
constexpr std::span<const FlowStep> kWaysOut(kFlowSteps + 1, std::size(kFlowSteps) - 2);

// "38–41 exams" over the folds, "40 exams" where all have as many.
std::string range_of(const std::vector<FoldChoice>& folds, FoldChoice::Part FoldChoice::*part,
                     std::size_t FoldChoice::Part::*count, const std::string& what) {
  std::vector<std::size_t> counts;
  for (const FoldChoice& fold : folds) counts.push_back(fold.*part.*count);
  const auto [least, most] = std::ranges::minmax(counts);
  return concat(least == most ? "" : concat(least, "–"), plural(most, what));
}

// The parts of the split, where they are of the exams used: those of a fold are of all targets.
void add_arms(html::FlowChart& flow, const TargetReport& report) {
  const std::vector<FoldChoice>& folds = report.choices;
  const auto beyond = [&](const FoldChoice& fold) {
    return fold.train.exams + fold.validation.exams + fold.test.exams > report.data.flow.used;
  };
  if (folds.empty() || std::ranges::any_of(folds, beyond)) return;
  const std::size_t repeats = folds.back().repeat + 1;
  if (folds.size() > 1)
    flow.division = concat("in each of ", folds.size() / repeats, " folds",
                           repeats > 1 ? concat(", ", repeats, " times") : "");
  const auto add = [&](const char* name, FoldChoice::Part FoldChoice::*part) {
    flow.arms.push_back({name, range_of(folds, part, &FoldChoice::Part::exams, "exam"),
                         "of " + range_of(folds, part, &FoldChoice::Part::patients, "patient")});
  };
  add("training", &FoldChoice::train);
  add("validation", &FoldChoice::validation);
  add("held out", &FoldChoice::test);
}

std::string flow_chart(const TargetReport& report) {
  const ExamFlow& exams = report.data.flow;
  html::FlowChart flow{
      "Flow of exams",
      {plural(exams.found, "exam") + " found"},
      {plural(exams.found - exams.used, "exam") + " left out"},
      {plural(exams.used, "exam") + " used", "of " + plural(report.data.patients, "patient")}};
  for (const FlowStep& step : kWaysOut)
    flow.left_out.push_back(concat(exams.*step.exams, " ", step.said));
  add_arms(flow, report);
  return html::flow_chart(flow);
}

html::Body flow_section(const TargetReport& report) {
  const ExamFlow& flow = report.data.flow;
  html::Rows rows = {{"found", concat(flow.found)}};
  for (const FlowStep& step : kWaysOut)
    rows.push_back({concat("− ", step.said), concat(flow.*step.exams)});
  rows.push_back({concat("used, of ", plural(report.data.patients, "patient")), concat(flow.used)});
  return flow_chart(report) + html::table({"", "exams"}, rows);
}

void add_flow(Json& summary, const TargetReport& report) {
  for (const FlowStep& step : kFlowSteps) summary["flow"][step.key] = report.data.flow.*step.exams;
}

std::string flow_csv(const TargetReport& report) {
  std::string csv = csv_row({"step", "exams"});
  for (const FlowStep& step : kFlowSteps)
    csv += csv_row({step.key, concat(report.data.flow.*step.exams)});
  return csv;
}

// Table 1, with a header that begins with these two columns.
html::Rows characteristic_rows(const TargetReport& report, const std::string& first,
                               const std::string& second) {
  html::Rows rows = {{first, second}};
  if (report.characteristics.front().cells.size() > 1)
    rows[0].insert(rows[0].end(), report.groups.begin(), report.groups.end());
  rows[0].emplace_back("all");
  for (const Characteristic& one : report.characteristics) {
    rows.push_back({one.column, one.row});
    rows.back().insert(rows.back().end(), one.cells.begin(), one.cells.end());
  }
  return rows;
}

html::Body characteristics_section(const TargetReport& report) {
  auto rows = characteristic_rows(report, "", "");
  const std::vector<std::string> header = rows.front();
  rows.erase(rows.begin());
  return html::table(header, rows) +
         html::paragraph("Of the exams used; shares are of the exams that have a value.");
}

std::string characteristics_csv(const TargetReport& report) {
  std::string csv;
  for (const auto& row : characteristic_rows(report, "column", "row")) csv += csv_row(row);
  return csv;
}

void add_characteristics(Json& summary, const TargetReport& report) {
  Json& json = summary["characteristics"] = Json::array();
  for (const Characteristic& one : report.characteristics)
    json.push_back({{"column", one.column}, {"row", one.row}, {"cells", one.cells}});
}

}  // namespace

std::span<const Section> cohort_sections() {
  static constexpr Section kSections[] = {
      {.heading = "Flow of exams",
       .applies = [](const TargetReport& report) { return report.data.flow.found > 0; },
       .body = flow_section,
       .json = add_flow,
       .drawings = {{{"flow", flow_chart}}},
       .tables = {{{"flow", flow_csv}}}},
      {.heading = "Characteristics by class",
       .applies = [](const TargetReport& report) { return !report.characteristics.empty(); },
       .body = characteristics_section,
       .json = add_characteristics,
       .tables = {{{"characteristics", characteristics_csv}}}}};
  return kSections;
}

}  // namespace coldframe::temporal
