#include "train_temporal/run/cohort/near_leaks.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "common/text/text.h"
#include "train_temporal/metrics/metrics.h"
#include "train_temporal/metrics/survival.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

// Five exams on either side reach any figure by chance once in a hundred times.
constexpr std::size_t kLeastOfClass = 5, kLeastOfCategory = 5;

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
    values.push_back(patients[value].size() < kLeastOfCategory ? "few" : "of " + value);
  return values;
}

// What the column alone foretells of each exam: its number, or the mean over its category.
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
  if (std::min(count, positive.size() - count) < kLeastOfClass) return 0;
  return either_way(auroc(foretold(known, category), positive), category);
}

double correlation_of(const Known& known, bool category) {
  if (known.truth.size() < 2 * kLeastOfClass) return 0;
  const MetricValue figure = spearman(foretold(known, category), known.truth);
  if (!figure.defined()) return 0;
  return category ? figure.value : std::abs(figure.value);
}

double concordance_of(const Known& known, bool category) {
  if (known.truth.size() < 2 * kLeastOfClass) return 0;
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

}  // namespace coldframe::temporal
