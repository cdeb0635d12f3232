#include "cache/tool/exams/filter.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "cache/tool/figures/times.h"
#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/suggestion.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
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

}  // namespace coldframe::cache::tool
