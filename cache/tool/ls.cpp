#include <cmath>

#include "cache/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/times.h"
#include "common/text.h"

namespace coldframe::cache {
namespace {

Json as_json(const ExamInfo& exam) {
  Json json = Json::object();
  json["id"] = exam.id;
  json["ordinal"] = exam.ordinal;
  json["revision"] = exam.revision;
  json["patient"] = exam.patient;
  json["frames"] = exam.frames();
  json["missing_frames"] = missing_frames(exam);
  json["span_s"] = json_number(time_span(exam));
  json["start_time"] = json_number(exam.start_time);
  json["source_kind"] = exam.source_kind;
  json["width"] = exam.frame_width;
  json["height"] = exam.frame_height;
  json["columns"] = Json::object();
  for (const ExamColumn& column : exam.columns) json["columns"][column.name] = column.value;
  return json;
}

int run_ls(const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(kLsCommand, arguments, options)) return 0;
  const CacheReader cache(options.path, Detail::kWithoutSources);
  if (options.json) {
    Json list = Json::array();
    for (const ExamInfo& exam : cache.exams()) list.push_back(as_json(exam));
    print_json(list);
    return 0;
  }
  const std::vector<std::string> columns = cache.column_names();
  std::vector<std::vector<std::string>> rows{{"EXAM", "FRAMES", "SPAN", "PATIENT"}};
  rows[0].insert(rows[0].end(), columns.begin(), columns.end());
  for (const ExamInfo& exam : cache.exams()) {
    const std::size_t missing = missing_frames(exam);
    const double span = time_span(exam);
    std::vector<std::string> row{
        exam.id,
        missing == 0 ? concat(exam.frames()) : concat(exam.frames(), " (", missing, " missing)"),
        std::isnan(span) ? "-" : fixed(span, 2) + " s", exam.patient.empty() ? "-" : exam.patient};
    for (const std::string& column : columns) {
      const std::string& value = column_value(exam, column);
      row.push_back(value.empty() ? "-" : value);
    }
    rows.push_back(std::move(row));
  }
  print_table(rows);
  return 0;
}

}  // namespace

const Command kLsCommand{"ls", "one line per exam: frames, time span, patient, columns", run_ls};

}  // namespace coldframe::cache
