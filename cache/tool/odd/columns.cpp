// Exams that are odd by what the input says of them.
#include <algorithm>
#include <cmath>
#include <map>

#include "cache/format/column_type.h"
#include "cache/tool/odd/finder.h"
#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

// A column is one of categories when its values are at most this share of the exams; a value of
// fewer exams than the other share is a slip of the pen when another one is spelt much like it.
constexpr double kCategories = 0.1, kSlip = 0.005;
constexpr std::size_t kFewValues = 10;

// A column, or what every exam has one value of, as text; "" is no value.
struct Values {
  std::string name;
  std::vector<std::string> texts;             // of each exam
  std::map<std::string, std::size_t> counts;  // of values
  std::size_t known = 0;

  Values(std::string of, const CacheReader& cache,
         const std::function<std::string(const ExamInfo&)>& value)
      : name(std::move(of)) {
    for (const ExamInfo& exam : cache.exams()) {
      texts.push_back(trim(value(exam)));
      if (is_missing(texts.back())) texts.back().clear();
      if (texts.back().empty()) continue;
      ++counts[texts.back()];
      ++known;
    }
  }
};

void find_missing(const Values& values, OddityFinder& finder) {
  for (std::size_t i = 0; i < values.texts.size(); ++i)
    if (values.texts[i].empty()) finder.note("no " + values.name, i, "no " + values.name);
}

void find_rare(const Values& values, OddityFinder& finder) {
  const auto known = static_cast<double>(values.known);
  if (static_cast<double>(values.counts.size()) > kCategories * known) return;
  std::vector<std::string> frequent;
  for (const auto& [text, count] : values.counts)
    if (static_cast<double>(count) > kSlip * known && count > 1) frequent.push_back(text);
  for (std::size_t i = 0; i < values.texts.size(); ++i) {
    const std::string& text = values.texts[i];
    if (text.empty() || std::ranges::find(frequent, text) != frequent.end()) continue;
    const std::string meant = nearest(text, frequent);
    const std::size_t count = values.counts.at(text);
    if (count > 1 && meant.empty()) continue;
    finder.note("rare " + values.name, i,
                concat(values.name, " '", text, "' ",
                       count == 1 ? "of no other exam" : concat("of ", count, " exams"),
                       meant.empty() ? "" : concat("; '", meant, "' is frequent")));
  }
}

// Judges a column whose values are nearly all numbers.
void find_odd_numbers(const Values& values, OddityFinder& finder) {
  std::vector<double> numbers(values.texts.size(), std::nan(""));
  std::size_t parsed = 0, negative = 0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    parsed += parse_double(values.texts[i], numbers[i]);
    negative += numbers[i] < 0;
  }
  const bool slips =
      static_cast<double>(negative) <= std::max(1.0, kSlip * static_cast<double>(parsed));
  const auto as_text = [&](std::size_t i) { return concat(values.name, " ", values.texts[i]); };
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    double number = 0;
    if (!values.texts[i].empty() && !parse_double(values.texts[i], number))
      finder.note("no number in " + values.name, i,
                  concat(values.name, " '", values.texts[i], "' is no number"));
    if (numbers[i] < 0 && slips)
      finder.note("negative " + values.name, i, as_text(i) + " is negative");
  }
  finder.measure({"column " + values.name, false}, numbers,
                 [&](std::size_t i, double, double usual) {
                   return concat(as_text(i), ", usually ", html::number_text(usual));
                 });
}

bool mostly_numbers(const Values& values) {
  double number = 0;
  std::size_t numbers = 0;
  for (const auto& [text, count] : values.counts) numbers += parse_double(text, number) ? count : 0;
  return values.counts.size() > kFewValues &&
         static_cast<double>(numbers) >= 0.95 * static_cast<double>(values.known);
}

}  // namespace

void find_odd_columns(const Examined& examined, OddityFinder& finder) {
  const CacheReader& cache = examined.cache;
  find_missing({"patient", cache, [](const ExamInfo& exam) { return exam.patient; }}, finder);
  find_rare({"kind of source", cache, [](const ExamInfo& exam) { return exam.source_kind; }},
            finder);
  find_rare({"frame size", cache,
             [](const ExamInfo& exam) {
               return exam.frame_width == 0 ? "" : concat(exam.frame_width, "×", exam.frame_height);
             }},
            finder);
  for (const std::string& name : cache.column_names()) {
    const Values values(name, cache,
                        [&](const ExamInfo& exam) { return column_value(exam, name); });
    find_missing(values, finder);
    mostly_numbers(values) ? find_odd_numbers(values, finder) : find_rare(values, finder);
  }
}

}  // namespace coldframe::cache::tool
