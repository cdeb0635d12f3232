#include "train_temporal/splits/label_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <map>
#include <set>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/text/spelling.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

constexpr std::array kUnclear = {"none", "null", "<na>", "#n/a", "-",      "--",
                                 "?",    ".",    "…",    "–",    "unknown"};

using Counts = std::map<std::string, std::size_t>;

// "'None' (2) and '?' (1)"
std::string listed(const Counts& words) {
  std::vector<std::string> texts;
  for (const auto& [word, count] : words) texts.push_back(concat("'", word, "' (", count, ")"));
  return join(texts, ", ");
}

}  // namespace

std::string empty_missing(std::vector<std::string>& values, const std::string& column,
                          UnclearLabels unclear, const std::vector<std::string>& classes) {
  Counts missing, asked;
  for (std::string& value : values) {
    const std::string word = trim(value);
    const bool is_unclear =
        std::ranges::find(kUnclear, lower(word)) != kUnclear.end() && !find_spelling(classes, word);
    if (is_unclear && unclear == UnclearLabels::kAsk) ++asked[word];
    if (!is_missing(word) && !(is_unclear && unclear == UnclearLabels::kMissing)) continue;
    if (!word.empty()) ++missing[word];
    value.clear();
  }
  if (!asked.empty())
    throw ConfigError(concat("column '", column, "' holds ", listed(asked),
                             ": give --unclear-labels missing where that says that there is no "
                             "label, or --unclear-labels classes where it names a class (where "
                             "both occur, leave the fields without a label empty)"));
  if (missing.empty()) return "";
  return concat("column '", column, "': ", listed(missing), " taken for no label");
}

std::string cleaned(const std::string& value) {
  return is_missing(value) ? "" : trim(value);
}

std::string one_spelling(const std::string& value) {
  constexpr double kExact = 9007199254740992.0;  // 2^53: whole numbers up to here are exact
  double number = 0;
  if (!parse_double(value, number) || !std::isfinite(number)) return value;
  const bool whole = number == std::floor(number) && std::abs(number) < kExact;
  return whole ? concat(static_cast<long long>(number)) : exact(number);
}

SpeltValues one_spelling(std::vector<std::string> values) {
  for (std::string& value : values) value = cleaned(value);
  const bool numeric = cache::infer_type(values) != cache::ColumnType::kText;
  std::string changes;
  if (numeric) {
    for (std::string& value : values) value = one_spelling(value);
  } else {
    changes = unify_spelling(values);
  }
  return {std::move(values), numeric, std::move(changes)};
}

std::string tell_changes(const std::string& column, const std::string& changes) {
  return concat(
      "column '", column,
      "': values that differ in spelling alone (case, spaces, forms of Unicode) are taken "
      "as one, ",
      changes, "; if they differ on purpose, give them names that differ more");
}

std::vector<std::string> distinct(const std::vector<std::string>& values) {
  std::vector<std::string> classes;
  const std::set<std::string> unique(values.begin(), values.end());
  std::ranges::copy_if(unique, std::back_inserter(classes), [](auto& v) { return !v.empty(); });
  // Exact order among values that natural order takes for equal, so that it is a total one.
  std::ranges::stable_sort(classes, natural_less);
  return classes;
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), kShown); ++i) {
    text += concat(i ? ", '" : "'", names[i], "'");
  }
  if (names.size() > kShown) text += concat(" and ", names.size() - kShown, " more");
  return text;
}

}  // namespace coldframe::temporal
