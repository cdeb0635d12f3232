#include "train_temporal/run/results/resolved_questions.h"

#include <algorithm>
#include <map>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/splits/labels.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kMostGroups = 50;
constexpr std::size_t kMostCategories = 50;

// The name of what an exam is averaged into: its patient, or this patient's value of a column; an
// exam without a value stays by itself.
std::vector<std::string> unit_names(Cohort& cohort, const std::string& aggregate) {
  if (aggregate == "patient") return cohort.patients;
  std::vector<std::string> names = cohort.column(aggregate, "aggregate");
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = names[i].empty() ? concat("exam ", cohort.exams()[i].id)
                                : concat(cohort.patients[i], ", ", aggregate, " ", names[i]);
  return names;
}

// One value per unit; `value` says which an exam has, "" none.
template <class Value>
void require_agreement(const Cohort& cohort, const std::vector<std::string>& unit,
                       const std::string& aggregate, const std::string& what, const Value& value) {
  std::map<std::string, std::size_t> first;
  for (std::size_t exam : cohort.labeled()) {
    if (value(exam).empty()) continue;
    const auto [known, added] = first.emplace(unit[exam], exam);
    if (added || value(known->second) == value(exam)) continue;
    throw DataError(concat("--aggregate ", aggregate, " averages the exams of one patient, but '",
                           cohort.exams()[known->second].id, "' and '", cohort.exams()[exam].id,
                           "' of ", unit[exam], " have '", what, "' = '", value(known->second),
                           "' and '", value(exam),
                           "'; correct one of them, or aggregate by a column within which they "
                           "agree"));
  }
}

// Exams without a value take that of their unit, which has one at most.
void share_within(const std::vector<std::string>& unit, const Cohort& cohort,
                  std::vector<std::string>& values) {
  std::map<std::string, std::string> value_of;
  for (std::size_t exam : cohort.labeled())
    if (!values[exam].empty()) value_of[unit[exam]] = values[exam];
  for (std::size_t exam : cohort.labeled())
    if (values[exam].empty()) values[exam] = value_of[unit[exam]];
}

void aggregate_exams(ResolvedQuestions& asked, Cohort& cohort) {
  const std::string& aggregate = asked.questions.aggregate;
  if (aggregate.empty()) return;
  if (cohort.targets.per_frame())
    throw ConfigError(concat("--aggregate averages predictions of exams, and '",
                             cohort.targets.names(), "' has a value per frame; leave it out"));
  const std::vector<std::string> unit = unit_names(cohort, aggregate);
  for (const Labels& labels : cohort.targets) {
    require_agreement(cohort, unit, aggregate, labels.name, [&](std::size_t exam) {
      return labels.kind().label_text(labels, labels.at(exam, 0));
    });
  }
  for (const auto& [column, values] : asked.columns) {
    require_agreement(cohort, unit, aggregate, column,
                      [&, &values = values](std::size_t exam) { return values[exam]; });
  }
  for (auto& [column, values] : asked.columns) share_within(unit, cohort, values);
  std::map<std::string, std::size_t> number;
  for (const std::string& name : unit)
    asked.unit.push_back(number.emplace(name, number.size()).first->second);
}

void read_characteristics(ResolvedQuestions& asked, Cohort& cohort) {
  for (const std::string& name : asked.questions.characteristics) {
    std::vector<std::string> values = cohort.column(name, "characteristics");
    const std::vector<std::string> used = cohort.of_labeled(values), different = distinct(used);
    if (different.size() > kMostCategories && !one_spelling(used).numeric)
      throw ConfigError(concat("--characteristics ", name, ": the column has ", different.size(),
                               " different values that are no numbers (", some_of(different),
                               "); at most ", kMostCategories, " categories make a table"));
    asked.characteristics.emplace_back(name, std::move(values));
  }
}

void read_subgroups(ResolvedQuestions& asked, Cohort& cohort) {
  for (const std::string& name : asked.questions.subgroups) {
    std::vector<std::string> values = cohort.column(name, "subgroups");
    const std::vector<std::string> groups = distinct(cohort.of_labeled(values));
    if (groups.size() < 2 || groups.size() > kMostGroups)
      throw ConfigError(concat("--subgroups ", name, ": the column has ", groups.size(),
                               " different values of labelled exams",
                               groups.empty() ? "" : concat(", ", some_of(groups)),
                               "; expected 2 to ", kMostGroups,
                               " (make a column of ranges of a number)"));
    asked.columns.emplace_back(name, std::move(values));
  }
}

}  // namespace

void check_answerable(const Questions& questions, const std::vector<Target>& targets) {
  if (!questions.of_decisions()) return;
  const auto binary = std::ranges::count_if(targets, &Target::has_threshold);
  const char* options = "--threshold, --prevalence, --at-specificity and --at-sensitivity";
  if (binary == 0)
    throw ConfigError(concat(options, " are for a binary target, and ", names_of(targets),
                             targets.size() > 1 ? " are none" : " is none"));
  if (binary > 1 && questions.threshold)
    throw ConfigError(concat("--threshold is for one binary target, and of ", names_of(targets),
                             ", ", binary, " are; leave it out"));
}

Questions questions_of(const TrainOptions& options, Cohort& cohort) {
  Questions questions = options.questions;
  auto& columns = questions.subgroups;
  const bool asked = std::ranges::find(columns, options.group) != columns.end();
  if (!options.each_group || asked || !questions.aggregate.empty()) return questions;
  const auto groups = distinct(cohort.of_labeled(cohort.column(options.group, "group")));
  if (groups.size() >= 2 && groups.size() <= kMostGroups) columns.push_back(options.group);
  return questions;
}

ResolvedQuestions ask(Cohort& cohort, const Questions& questions) {
  ResolvedQuestions asked{questions, {}, {}, {}};
  check_answerable(questions, cohort.targets.list());
  read_characteristics(asked, cohort);
  read_subgroups(asked, cohort);
  aggregate_exams(asked, cohort);
  return asked;
}

}  // namespace coldframe::temporal
