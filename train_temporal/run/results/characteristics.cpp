#include "train_temporal/run/results/characteristics.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "train_temporal/splits/labels.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kFewNumbers = 5;  // of no more different ones each is a category

// The exams of each of TaskKind::group_names(); then all.
using Groups = std::vector<std::vector<std::size_t>>;

Groups groups_of_exams(const Labels& labels, const std::vector<std::size_t>& used) {
  Groups groups(labels.kind().group_names(labels).size() + 1);
  for (std::size_t exam : used) {
    if (labels.value[exam] == kUnlabeled) continue;
    groups.back().push_back(exam);
    if (!labels.per_frame && groups.size() > 1)
      groups[static_cast<std::size_t>(labels.value[exam])].push_back(exam);
  }
  if (labels.per_frame) groups = {groups.back()};
  return groups;
}

std::string share_text(std::size_t count, std::size_t of) {
  const double share = of > 0 ? 100.0 * static_cast<double>(count) / static_cast<double>(of) : 0;
  return concat(count, " (", fixed(share, 1), " %)");
}

// Three digits say enough of a person's age and of a share.
std::string short_text(double value) {
  const double size = std::abs(value);
  return fixed(value, size >= 100 ? 0 : size >= 10 ? 1 : size >= 1 ? 2 : 3);
}

std::string mean_text(const std::vector<double>& values) {
  if (values.empty()) return "–";
  double mean = 0, squares = 0;
  const auto n = static_cast<double>(values.size());
  for (double value : values) mean += value / n;
  for (double value : values) squares += (value - mean) * (value - mean);
  return values.size() < 2
             ? short_text(mean)
             : concat(short_text(mean), " (", short_text(std::sqrt(squares / (n - 1))), ")");
}

std::string median_text(std::vector<double> values) {
  if (values.empty()) return "–";
  std::ranges::sort(values);
  return concat(short_text(quantile(values, 0.5)), " [", short_text(quantile(values, 0.25)), ", ",
                short_text(quantile(values, 0.75)), "]");
}

template <class Cell>
Characteristic row_of(const std::string& column, const std::string& row, const Groups& groups,
                      const Cell& cell) {
  Characteristic result{column, row, {}};
  for (const auto& exams : groups) result.cells.push_back(cell(exams));
  return result;
}

std::vector<double> numbers_at(const std::vector<std::string>& values,
                               const std::vector<std::size_t>& exams) {
  std::vector<double> numbers;
  for (std::size_t exam : exams) {
    double number = 0;
    if (!values[exam].empty() && parse_double(values[exam], number)) numbers.push_back(number);
  }
  return numbers;
}

std::size_t count_at(const std::vector<std::string>& values, const std::vector<std::size_t>& exams,
                     const std::string& value) {
  return static_cast<std::size_t>(
      std::ranges::count_if(exams, [&](std::size_t exam) { return values[exam] == value; }));
}

void add_column(std::vector<Characteristic>& rows, const std::string& column,
                const std::vector<std::string>& values, const Groups& groups) {
  std::vector<std::string> used;
  for (std::size_t exam : groups.back()) used.push_back(values[exam]);
  const std::vector<std::string> different = distinct(used);
  const bool numbers = one_spelling(used).numeric && different.size() > kFewNumbers;
  using Exams = std::vector<std::size_t>;
  if (numbers) {
    rows.push_back(row_of(column, "mean (SD)", groups, [&](const Exams& exams) {
      return mean_text(numbers_at(values, exams));
    }));
    rows.push_back(row_of(column, "median [quartiles]", groups, [&](const Exams& exams) {
      return median_text(numbers_at(values, exams));
    }));
  }
  for (const std::string& value : numbers ? std::vector<std::string>() : different) {
    rows.push_back(row_of(column, value, groups, [&](const Exams& exams) {
      return share_text(count_at(values, exams, value), exams.size() - count_at(values, exams, ""));
    }));
  }
  if (different.empty() || count_at(values, groups.back(), "") > 0)
    rows.push_back(row_of(column, "missing", groups,
                          [&](const Exams& exams) { return concat(count_at(values, exams, "")); }));
}

}  // namespace

std::vector<Characteristic> characteristics_of(const Cohort& cohort, std::size_t target,
                                               const std::vector<std::size_t>& used,
                                               const ResolvedQuestions& asked) {
  if (asked.characteristics.empty()) return {};
  using Exams = std::vector<std::size_t>;
  const Groups groups = groups_of_exams(cohort.targets[target], used);
  std::vector<Characteristic> rows;
  rows.push_back(
      row_of("exams", "", groups, [](const Exams& exams) { return concat(exams.size()); }));
  rows.push_back(row_of("patients", "", groups, [&](const Exams& exams) {
    std::set<std::size_t> patients;
    for (std::size_t exam : exams) patients.insert(cohort.patient_number[exam]);
    return concat(patients.size());
  }));
  rows.push_back(row_of("frames per exam", "median [quartiles]", groups, [&](const Exams& exams) {
    std::vector<double> frames;
    for (std::size_t exam : exams)
      frames.push_back(static_cast<double>(present_frames(cohort.exams()[exam])));
    return median_text(frames);
  }));
  for (const auto& [column, values] : asked.characteristics)
    add_column(rows, column, values, groups);
  return rows;
}

}  // namespace coldframe::temporal
