#include "cache/tool/exams.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <type_traits>
#include <unordered_map>

#include "cache/format/shard.h"
#include "common/cli/error.h"
#include "common/files/csv.h"
#include "common/numbers/quantile.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {

namespace {

namespace fs = std::filesystem;

// Ids alone look like a table of one column, whose title is the first of them.
bool is_bare_list(const CsvTable& table) {
  return table.header.size() == 1 && table.header[0] != "exam" && table.header[0] != "path";
}

}  // namespace

ExamListFile read_exam_list(const fs::path& path) {
  CsvTable table = read_csv(path);
  if (is_bare_list(table)) {
    table.rows.insert(table.rows.begin(), table.header);
    table.lines.insert(table.lines.begin(), 1);
    table.header = {"exam"};
  }
  const std::size_t exam = table.require_column("exam");
  const std::optional<std::size_t> file = table.column("path");
  ExamListFile list{{}, file.has_value()};
  std::unordered_map<std::string, std::size_t> places;
  for (std::size_t row = 0; row < table.rows.size(); ++row) {
    const std::string id = trim(table.rows[row][exam]),
                      name = file ? trim(table.rows[row][*file]) : "";
    if (id.empty())
      throw DataError(concat(table.name, ", line ", table.lines[row], ": column 'exam' is empty"));
    const auto [place, is_new] = places.emplace(id, list.exams.size());
    if (is_new) list.exams.push_back({id, {}});
    std::vector<fs::path>& files = list.exams[place->second].files;
    const fs::path full = path.parent_path() / fs::path(name);
    if (!name.empty() && std::find(files.begin(), files.end(), full) == files.end())
      files.push_back(full);
  }
  return list;
}

namespace {

using Field = std::function<std::string(const ExamInfo&)>;

// Shortest text that reads back as the same number.
std::string exact(double value) {
  return std::isnan(value) ? "" : json_number(value).dump();
}

const std::vector<std::pair<std::string, Field>> kOwnFields = {
    {"exam", [](const ExamInfo& exam) { return exam.id; }},
    {"patient", [](const ExamInfo& exam) { return exam.patient; }},
    {"frames", [](const ExamInfo& exam) { return concat(exam.frames()); }},
    {"missing", [](const ExamInfo& exam) { return concat(missing_frames(exam)); }},
    {"span", [](const ExamInfo& exam) { return exact(time_span(exam)); }},
    {"kind", [](const ExamInfo& exam) { return exam.source_kind; }}};

Field find_field(const CacheReader& cache, const std::string& name) {
  std::vector<std::string> names = cache.column_names();
  if (std::find(names.begin(), names.end(), name) != names.end())
    return [name](const ExamInfo& exam) { return column_value(exam, name); };
  for (const auto& [own, field] : kOwnFields) {
    if (own == name) return field;
    names.push_back(own);
  }
  throw ConfigError(
      concat("--where: the cache has no column '", name, "'; it has ", known_words(names, name)));
}

struct Condition {
  Field field;
  std::string operation, value;
  bool of_patient = false;
  double number = 0;
  bool numeric = false;

  bool holds(const ExamInfo& exam) const {
    const std::string text = field(exam);
    double found = 0;
    const bool comparable = numeric && parse_double(text, found) && !std::isnan(found);
    const bool equal = text == value || (of_patient && spelt_alike(text, value)) ||
                       (comparable && found == number);
    if (operation == "=") return equal;
    if (operation == "!=") return !equal;
    if (!comparable) return false;
    if (operation == "<") return found < number;
    if (operation == "<=") return found <= number;
    return operation == ">" ? found > number : found >= number;
  }
};

Condition parse_condition(const CacheReader& cache, const std::string& text) {
  const std::size_t at = text.find_first_of("=<>!");
  const auto refuse = [&] {
    throw ConfigError(concat("--where: '", text,
                             "' is not a condition such as label=covid, label!=covid or age>=60 "
                             "(quote < and > for the shell)"));
  };
  if (at == std::string::npos || at == 0) refuse();
  Condition condition;
  condition.operation = text.substr(at, at + 1 < text.size() && text[at + 1] == '=' ? 2 : 1);
  if (condition.operation == "!") refuse();
  condition.value = trim(text.substr(at + condition.operation.size()));
  if (condition.operation == "==") condition.operation = "=";
  condition.numeric =
      parse_double(condition.value, condition.number) && !std::isnan(condition.number);
  if (condition.operation != "=" && condition.operation != "!=" && !condition.numeric)
    throw ConfigError(concat("--where: '", text, "' compares with '", condition.value,
                             "', which is not a number"));
  const std::string name = trim(text.substr(0, at));
  condition.of_patient = name == "patient";
  condition.field = find_field(cache, name);
  return condition;
}

}  // namespace

std::vector<std::size_t> select_exams(const CacheReader& cache,
                                      const std::vector<std::string>& conditions) {
  std::vector<Condition> parsed;
  for (const std::string& text : conditions) parsed.push_back(parse_condition(cache, text));
  std::vector<std::size_t> chosen;
  for (std::size_t i = 0; i < cache.exams().size(); ++i)
    if (std::all_of(parsed.begin(), parsed.end(),
                    [&](const Condition& each) { return each.holds(cache.exams()[i]); }))
      chosen.push_back(i);
  return chosen;
}

std::unordered_set<std::string> select_ids(const std::string& path,
                                           const std::vector<std::string>& conditions) {
  const CacheReader cache(path, Detail::kWithoutSources);
  std::unordered_set<std::string> ids;
  for (const std::size_t exam : select_exams(cache, conditions)) ids.insert(cache.exams()[exam].id);
  if (ids.empty())
    throw ConfigError(concat("--where: no exam of ", path,
                             " is chosen; `coldframe cache ls` lists "
                             "them"));
  return ids;
}

std::vector<std::size_t> evenly_spaced(std::size_t count, std::size_t most) {
  std::vector<std::size_t> chosen(std::min(count, most));
  for (std::size_t i = 0; i < chosen.size(); ++i) chosen[i] = i * count / chosen.size();
  return chosen;
}

void add_stored(const ExamInfo& exam, Json& json) {
  each_member(exam, [&]<typename T>(const SchemaRow& row, const T& value) {
    if (row.axis != Axis::kExam || row.detail != Detail::kWithoutSources || json.contains(row.name))
      return;
    if constexpr (std::is_same_v<T, double>) {
      json[row.name] = json_number(value);
    } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
      json[row.name] = value;
    }
  });
}

double time_span(const ExamInfo& exam) {
  const std::vector<double> known = finite_values(exam.time_s);
  return known.size() < 2 ? kUnknownTime : known.back() - known.front();
}

std::vector<double> intervals(const ExamInfo& exam) {
  std::vector<double> steps;
  for (std::size_t t = 1; t < exam.time_s.size(); ++t)
    if (std::isfinite(exam.time_s[t]) && std::isfinite(exam.time_s[t - 1]))
      steps.push_back(exam.time_s[t] - exam.time_s[t - 1]);
  return steps;
}

TimeUnit time_unit(double typical_seconds) {
  constexpr double kDay = 86400, kYear = 365.25 * kDay;
  if (typical_seconds >= 2 * kYear) return {"years", " years", kYear};
  if (typical_seconds >= 2 * kDay) return {"days", " days", kDay};
  return {"seconds", " s", 1};
}

TimeUnit to_own_unit(std::vector<double>& seconds) {
  const std::vector<double> known = finite_values(seconds);
  const TimeUnit unit = time_unit(known.empty() ? 0 : median(known));
  for (double& each : seconds) each /= unit.seconds;
  return unit;
}

}  // namespace coldframe::cache::tool
