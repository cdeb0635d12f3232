#include <cmath>

#include "cache/store/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/exams.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

Json exam_json(const ExamInfo& exam) {
  Json json = Json::object();
  json["id"] = exam.id;
  json["ordinal"] = exam.ordinal;
  json["revision"] = exam.revision;
  json["patient"] = exam.patient;
  json["frames"] = exam.frames();
  json["missing_frames"] = missing_frames(exam);
  json["span_s"] = json_number(time_span(exam));
  add_stored(exam, json);
  json["columns"] = Json::object();
  for (const ExamColumn& column : exam.columns) json["columns"][column.name] = column.value;
  return json;
}

std::string or_dash(const std::string& text) {
  return text.empty() ? "-" : text;
}

TextRows as_rows(const CacheReader& cache, const std::vector<std::size_t>& chosen) {
  const std::vector<std::string> columns = cache.column_names();
  TextRows rows{{"EXAM", "FRAMES", "SPAN", "PATIENT"}};
  rows.reserve(chosen.size() + 1);
  rows[0].insert(rows[0].end(), columns.begin(), columns.end());
  for (const std::size_t index : chosen) {
    const ExamInfo& exam = cache.exams()[index];
    const std::size_t missing = missing_frames(exam);
    const double span = time_span(exam);
    std::string frames = std::to_string(exam.frames());
    if (missing > 0) frames += concat(" (", missing, " missing)");
    rows.push_back({exam.id, std::move(frames), std::isnan(span) ? "-" : fixed(span, 2) + " s",
                    or_dash(exam.patient)});
    for (const std::string& column : columns)
      rows.back().push_back(or_dash(column_value(exam, column)));
  }
  return rows;
}

int run_ls(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::vector<std::string> where;
  po::options_description more;
  more.add_options()("where", po::value(&where)->composing()->value_name("CONDITION"), kWhereHelp);
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const CacheReader cache(options.path(), Detail::kWithoutSources);
  const std::vector<std::size_t> chosen = select_exams(cache, where);
  if (options.json) {
    Json list = Json::array();
    for (const std::size_t exam : chosen) list.push_back(exam_json(cache.exams()[exam]));
    print_json(list);
  } else {
    print_table(as_rows(cache, chosen));
  }
  if (!where.empty()) log_info(concat(chosen.size(), " of ", plural(cache.exams().size(), "exam")));
  return 0;
}

}  // namespace

extern const Verb kLsCommand;
const Verb kLsCommand{&kCache,
                      "ls",
                      "PATH",
                      "x.h5 --where label=covid --where 'frames>=12'",
                      "one line per exam: frames, time span, patient, columns",
                      run_ls};

}  // namespace coldframe::cache::tool
