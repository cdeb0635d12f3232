#include "train_temporal/run/cohort/covariates.h"

#include <algorithm>
#include <map>
#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/run/cohort/near_leaks.h"
#include "train_temporal/splits/labels.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kMostLearnt = 50;

std::vector<std::string> at(const std::vector<std::string>& values,
                            const std::vector<std::size_t>& exams) {
  std::vector<std::string> result;
  for (std::size_t exam : exams) result.push_back(values[exam]);
  return result;
}

// True when each value goes with one of the other column and the reverse.
bool one_to_one(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  std::map<std::string, std::string> to, back;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i].empty()) continue;
    if (to.emplace(a[i], b[i]).first->second != b[i]) return false;
    if (back.emplace(b[i], a[i]).first->second != a[i]) return false;
  }
  return true;
}

void refuse(const std::string& name, const std::string& why) {
  throw ConfigError(concat("--covariates ", name, ": ", why));
}

void check_name(const std::string& name, const Cohort& cohort, const TrainOptions& options) {
  std::set<std::string> learnt;
  for (const Labels& labels : cohort.targets) learnt.insert(labels.name);
  for (const std::string& target : split(options.data.target, ','))
    for (const std::string& part : split(target, ':')) learnt.insert(trim(part));
  if (learnt.contains(name)) refuse(name, "that is what is learnt; leave it out");
  if (name == "exam" || name == "patient" || name == "split")
    refuse(name, "that names exams, patients or parts, and tells nothing of others; leave it out");
}

void check_values(const CovariateColumn& column, const Cohort& cohort,
                  const std::vector<std::size_t>& used) {
  const std::vector<std::string> values = at(column.values, used), different = distinct(values);
  if (different.empty()) refuse(column.name, "no labelled exam has a value; leave it out");
  const bool complete = std::ranges::find(values, "") == values.end();
  if (different.size() == 1 && complete)
    refuse(column.name, concat("all labelled exams have '", different.front(),
                               "', which tells nothing; leave it out"));
  if (!column.category) return;
  if (different.size() > kMostLearnt)
    refuse(column.name,
           concat("the column has ", different.size(),
                  " different values that are no numbers, or are taken for categories (",
                  some_of(different), "); at most ", kMostLearnt,
                  " can be learnt: make a column of groups of them"));
  if (different.size() > 2 && one_to_one(values, at(cohort.patients, used)))
    refuse(column.name,
           "every patient has a value of their own, which tells nothing of others; leave it out");
}

// A diagnosis in other words must not pass for a covariate unseen.
void warn_of_answers(const CovariateColumn& column, Cohort& cohort) {
  bool same = false;
  for (const Labels& labels : cohort.targets) {
    if (!labels.has_classes() || labels.per_frame) continue;
    std::vector<std::string> values, classes;
    for (std::size_t exam : labels.labeled_exams()) {
      values.push_back(column.values[exam]);
      classes.push_back(labels.classes[static_cast<std::size_t>(labels.value[exam])]);
    }
    if (!one_to_one(values, classes)) continue;
    same = true;
    cohort.warnings.push_back(concat("covariate '", column.name, "': its values go with those of '",
                                     labels.name,
                                     "' one to one; is it another way to spell the answer?"));
  }
  if (!same) cohort.warn(near_leaks(column, cohort.targets, cohort.patient_number));
}

std::string kind_text(const CovariateColumn& column, const std::vector<std::size_t>& used) {
  if (!column.category) return "number";
  return concat("category: ", join(distinct(at(column.values, used)), ", "));
}

void warn_of_unknown(const CovariateColumn& column, const std::vector<Split>& splits,
                     Cohort& cohort) {
  std::set<std::size_t> exams;
  for (const Split& split : splits) {
    const CovariateEncoding encoding({column}, split.train);
    for (const auto* part : {&split.validation, &split.test}) {
      for (std::size_t exam : *part)
        if (unknown_categories(encoding, 0, column, {exam}) > 0) exams.insert(exam);
    }
  }
  if (!exams.empty())
    cohort.warnings.push_back(concat("covariate '", column.name,
                                     "': ", plural(exams.size(), "exam"),
                                     " with a category that the training part of their fold has "
                                     "not count as missing"));
}

}  // namespace

std::vector<CovariateColumn> read_covariates(Cohort& cohort, const std::vector<Split>& splits,
                                             const TrainOptions& options) {
  std::vector<CovariateColumn> columns;
  const auto used = cohort.labeled();
  for (const auto& [name, category] : options.covariates.columns) {
    check_name(name, cohort, options);
    CovariateColumn& column = columns.emplace_back();
    column.name = name;
    column.values = cohort.column(name, "covariates");
    column.category = category.value_or(!one_spelling(at(column.values, used)).numeric);
    require_numbers(column, cohort.exams(), used);
    check_values(column, cohort, used);
    warn_of_answers(column, cohort);
    warn_of_unknown(column, splits, cohort);
    const CovariateFacts facts = covariate_facts({column}, used).front();
    cohort.notes.push_back(concat("covariate '", name, "': ", facts.kind, ", ",
                                  plural(facts.missing, "exam"), " without a value"));
  }
  return columns;
}

void take_covariates(FitTask& task, const CovariateEncoding& encoding,
                     const std::vector<CovariateColumn>& columns, bool at_frames) {
  if (encoding.empty()) return;
  task.covariates = encoding.encode(columns);
  task.config.covariates = encoding.width();
  const Architecture& architecture = *task.config.architecture;
  task.config.frame_covariates = at_frames && architecture.sees_frames && architecture.by_steps;
  if (task.config.frame_covariates) task.config.dimension += encoding.width();
}

Json covariates_json(const std::vector<CovariateColumn>& columns, bool at_frames) {
  Json json = {{"at", at_frames ? "frames" : "head"}};
  for (const CovariateColumn& column : columns)
    json["columns"][column.name] = column.category ? "category" : "number";
  return json;
}

std::vector<CovariateFacts> covariate_facts(const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& used) {
  std::vector<CovariateFacts> facts;
  for (const CovariateColumn& column : columns) {
    const auto missing = std::ranges::count(at(column.values, used), "");
    facts.push_back({column.name, kind_text(column, used), static_cast<std::size_t>(missing)});
  }
  return facts;
}

}  // namespace coldframe::temporal
