// The exams of a report, and what became of those that were left out.
#include "common/text/text.h"
#include "train_temporal/report/report_sections.h"
#include "train_temporal/report/report_text.h"

namespace coldframe::temporal {

void add_cohort(html::Page& page, const RunReport& report, const std::string& of) {
  const ExamFlow& flow = report.data.flow;
  if (flow.found > 0) {
    std::vector<std::vector<std::string>> rows = {{"found", concat(flow.found)}};
    for (const auto& [what, count] :
         {std::pair{std::string("could not be read"), flow.failed},
          std::pair{std::string("without a readable frame"), flow.without_frame},
          std::pair{concat("without a label of '", report.target, "'"), flow.without_label},
          std::pair{std::string("in no part of the split"), flow.in_no_part}})
      rows.push_back({"− " + what, concat(count)});
    rows.push_back(
        {concat("used, of ", plural(report.data.patients, "patient")), concat(flow.used)});
    page.section("Flow of exams" + of, html::table({"", "exams"}, rows));
  }
  if (report.characteristics.empty()) return;
  std::vector<std::string> header = {"", ""};
  if (report.characteristics.front().cells.size() > 1)
    header.insert(header.end(), report.classes.begin(), report.classes.end());
  header.push_back("all");
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
