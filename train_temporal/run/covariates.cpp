#include "train_temporal/run/covariates.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/evaluate/metrics.h"
#include "train_temporal/evaluate/survival.h"
#include "train_temporal/labels/labels.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

namespace {

// With five exams on either side, any value of the metric occurs by chance once in a hundred times.
constexpr std::size_t kMinOfClass = 5, kMinOfCategory = 5;

// The exams of which the covariate and the answer are known.
struct Known {
  std::vector<std::string> value;
  std::vector<std::size_t> patient;
  std::vector<double> truth;  // 0 or 1, a number, or a time
  std::vector<int> event;     // of times
};

// Small categories are one: each of many would foretell its few exams by heart.
std::vector<std::string> without_small(const Known& known) {
  std::map<std::string, std::set<std::size_t>> patients;
  for (std::size_t i = 0; i < known.value.size(); ++i)
    patients[known.value[i]].insert(known.patient[i]);
  std::vector<std::string> values;
  for (const std::string& value : known.value)
    values.push_back(patients[value].size() < kMinOfCategory ? "few" : "of " + value);
  return values;
}

// The prediction for each exam from the column only: its number, or the mean over its category.
std::vector<double> foretold(const Known& known, bool category) {
  std::vector<double> scores;
  if (!category) {
    for (const std::string& value : known.value) parse_double(value, scores.emplace_back());
    return scores;
  }
  struct Sum {
    double truth = 0, exams = 0;
  };
  std::map<std::string, Sum> sums;
  const std::vector<std::string> values = without_small(known);
  for (std::size_t i = 0; i < values.size(); ++i) {
    sums[values[i]].truth += known.truth[i];
    sums[values[i]].exams += 1;
  }
  for (const std::string& value : values) scores.push_back(sums[value].truth / sums[value].exams);
  return scores;
}

// Chance is 0.5, and numbers may run either way.
double either_way(const MetricValue& figure, bool category) {
  if (!figure.defined()) return 0;
  return category ? figure.value : std::max(figure.value, 1 - figure.value);
}

double auroc_of(const Known& known, bool category) {
  std::vector<int> positive;
  for (const double truth : known.truth) positive.push_back(truth > 0);
  const auto count = static_cast<std::size_t>(std::ranges::count(positive, 1));
  if (std::min(count, positive.size() - count) < kMinOfClass) return 0;
  return either_way(auroc(foretold(known, category), positive), category);
}

double correlation_of(const Known& known, bool category) {
  if (known.truth.size() < 2 * kMinOfClass) return 0;
  const MetricValue figure = spearman(foretold(known, category), known.truth);
  if (!figure.defined()) return 0;
  return category ? figure.value : std::abs(figure.value);
}

double concordance_of(const Known& known, bool category) {
  if (known.truth.size() < 2 * kMinOfClass) return 0;
  std::vector<double> risk = foretold(known, category);
  for (double& value : risk) value = -value;  // who has the event late has a low one
  return either_way(harrell_c({known.truth, known.event}, risk), category);
}

// `of_class`: one against the rest.
Known known_exams(const CovariateColumn& column, const Labels& labels,
                  const std::vector<std::size_t>& patient, double of_class) {
  Known known;
  for (const std::size_t exam : labels.labeled_exams()) {
    if (column.values[exam].empty() && !column.category) continue;
    const double label = labels.at(exam, 0);
    known.value.push_back(column.values[exam]);
    known.patient.push_back(patient[exam]);
    ScoredExams one;
    labels.kind().add_label(one, label);
    known.truth.push_back(one.number.empty() ? label == of_class : one.number.front());
    known.event.push_back(one.label.front());
  }
  return known;
}

// "an AUROC of 0.993 for 'ill' of 'label'"; empty below kNearLeak.
std::string reached(const CovariateColumn& column, const Labels& labels,
                    const std::vector<std::size_t>& patient) {
  const auto text = [&](const char* figure, double value, const std::string& of) {
    return value < kNearLeak ? "" : concat(figure, " of ", fixed(value, 3), " for ", of);
  };
  const std::string name = concat("'", labels.name, "'");
  if (!labels.has_classes()) {
    const Known known = known_exams(column, labels, patient, 0);
    return labels.is_timed()
               ? text("a concordance", concordance_of(known, column.category), name)
               : text("a rank correlation", correlation_of(known, column.category), name);
  }
  for (std::size_t c = labels.has_threshold() ? 1 : 0; c < labels.classes.size(); ++c) {
    const Known known = known_exams(column, labels, patient, static_cast<double>(c));
    const std::string found = text("an AUROC", auroc_of(known, column.category),
                                   concat("'", labels.classes[c], "' of ", name));
    if (!found.empty()) return found;
  }
  return {};
}

}  // namespace

std::vector<std::string> near_leaks(const CovariateColumn& column, const Targets& targets,
                                    const std::vector<std::size_t>& patient) {
  CovariateColumn has_value = column;
  has_value.category = true;
  for (std::string& value : has_value.values) value = value.empty() ? "" : "known";
  std::vector<std::string> said;
  for (const Labels& labels : targets) {
    if (labels.per_frame) continue;
    for (const CovariateColumn* one : {&column, &std::as_const(has_value)}) {
      const std::string figure = reached(*one, labels, patient);
      if (figure.empty()) continue;
      said.push_back(concat(
          "covariate '", column.name, "': ", one == &column ? "it" : "which exams have a value",
          " alone reaches ", figure, "; is it known before the answer is, and not because of it?"));
      break;
    }
  }
  return said;
}

namespace {

constexpr std::size_t kMaxLearnt = 50;

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
  if (different.size() > kMaxLearnt)
    refuse(column.name,
           concat("the column has ", different.size(),
                  " different values that are no numbers, or are taken for categories (",
                  some_of(different), "); at most ", kMaxLearnt,
                  " can be learnt: make a column of groups of them"));
  if (different.size() > 2 && one_to_one(values, at(cohort.patients, used)))
    refuse(column.name,
           "every patient has a value of their own, which tells nothing of others; leave it out");
}

// A recoded diagnosis must not pass as a covariate unnoticed.
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
