#include "train_temporal/tasks/target.h"

#include <algorithm>
#include <cmath>

#include "common/text/text.h"
#include "common/text/word_table.h"
#include "train_temporal/metrics/calibration.h"
#include "train_temporal/tasks/logistic.h"
#include "train_temporal/tasks/survival.h"

namespace coldframe::temporal {
namespace {

const WordTable<Task> kTasks{{"binary", Task::kBinary},   {"multiclass", Task::kMulticlass},
                             {"ordinal", Task::kOrdinal}, {"regression", Task::kRegression},
                             {"cox", Task::kCox},         {"hazards", Task::kHazards}};

// P(class = c) from the conditional probabilities of exceeding each class.
std::vector<double> ordinal_probabilities(std::span<const double> outputs, std::size_t classes) {
  std::vector<double> result;
  for (std::size_t row = 0; row < outputs.size(); row += classes - 1) {
    double exceeding = 1;
    for (std::size_t k = 0; k + 1 < classes; ++k) {
      const double next = exceeding * logistic(outputs[row + k]);
      result.push_back(exceeding - next);
      exceeding = next;
    }
    result.push_back(exceeding);
  }
  return result;
}

}  // namespace

const char* task_name(Task task) {
  return word_for(kTasks, task);
}

std::optional<Task> find_task(std::string_view name) {
  return value_for(kTasks, name);
}

std::vector<std::string> task_names() {
  return words_in(kTasks);
}

std::size_t Target::outputs() const {
  switch (task) {
    case Task::kBinary:
    case Task::kMulticlass:
      return classes.size();
    case Task::kOrdinal:
      return classes.size() - 1;
    case Task::kHazards:
      return intervals;
    case Task::kRegression:
    case Task::kCox:
      break;
  }
  return 1;
}

std::size_t Target::scores() const {
  return has_classes() ? classes.size() : 1 + horizons.size();
}

Scale Target::scale() const {
  if (is_survival()) return Scale::kTime;
  if (task == Task::kRegression) return Scale::kNumber;
  return task == Task::kOrdinal ? Scale::kOrdinal : Scale::kNominal;
}

std::vector<double> scores_of(const Target& target, const Readout& reading,
                              std::span<const double> outputs) {
  switch (target.task) {
    case Task::kBinary:
    case Task::kMulticlass:
      return softmax(outputs, target.classes.size(), reading.temperature);
    case Task::kOrdinal:
      return ordinal_probabilities(outputs, target.classes.size());
    case Task::kCox:
    case Task::kHazards:
      return survival_scores(target, reading, outputs);
    case Task::kRegression:
      break;
  }
  std::vector<double> numbers(outputs.begin(), outputs.end());
  for (double& number : numbers) number = reading.mean + reading.deviation * number;
  return numbers;
}

std::vector<int> decide(const Target& target, std::span<const double> scores, double threshold) {
  if (!target.has_classes()) return std::vector<int>(scores.size() / target.scores(), 0);
  const std::size_t classes = target.classes.size();
  if (target.task != Task::kOrdinal) return decide(scores, classes, threshold);
  std::vector<int> decision;
  for (std::size_t row = 0; row < scores.size(); row += classes) {
    double exceeding = 1;
    std::size_t c = 0;
    while (c + 1 < classes && (exceeding -= scores[row + c]) > 0.5) ++c;
    decision.push_back(static_cast<int>(c));
  }
  return decision;
}

std::vector<double> columns(std::span<const double> table, std::size_t width, std::size_t from,
                            std::size_t count) {
  if (count == width) return {table.begin(), table.end()};
  std::vector<double> result;
  result.reserve(table.size() / width * count);
  for (std::size_t row = 0; row < table.size(); row += width) {
    for (std::size_t c = from; c < from + count; ++c) result.push_back(table[row + c]);
  }
  return result;
}

std::string names_of(std::span<const Target> targets) {
  std::vector<std::string> names;
  for (const Target& target : targets) names.push_back(target.name);
  return join(names, ", ");
}

}  // namespace coldframe::temporal
