// The list of tasks. A new task is a file of its own and one line in each part of this list.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/json.h"
#include "train_temporal/evaluate/metrics.h"

namespace coldframe::temporal {

class TaskKind;

enum class Task { kBinary, kMulticlass, kOrdinal, kRegression, kCox };

const TaskKind& binary_task();      // classes.cpp
const TaskKind& multiclass_task();  // classes.cpp
const TaskKind& ordinal_task();     // ordinal.cpp
const TaskKind& regression_task();  // number.cpp
const TaskKind& cox_task();         // cox.cpp

inline constexpr const TaskKind& (*kTasks[])() = {binary_task, multiclass_task, ordinal_task,
                                                  regression_task, cox_task};

// A target: its labels, its outputs of the head, and their meaning.

const char* task_name(Task task);  // "binary", …
std::optional<Task> find_task(std::string_view name);
std::vector<std::string> task_names();  // of all tasks

// Classes of the column that are learnt as one class `to`, or, where that is empty, are left out:
// as if their exams had no label.
struct ClassChange {
  std::vector<std::string> from;
  std::string to;

  bool operator==(const ClassChange&) const = default;
};
// "`a` and `b` as `c`" and "without `d`", as `name` writes a class.
std::string text_of(const std::vector<ClassChange>& changes,
                    const std::function<std::string(const std::string&)>& name);
std::vector<ClassChange> class_changes_from_json(const Json& target_json);

// One target, which defines how to read a model's outputs; stored with the model.
struct Target {
  std::string name;  // the column
  Task task = Task::kBinary;
  std::vector<std::string> classes;  // binary: {negative, positive}; numbers and times: none
  bool per_frame = false;            // one value per frame, not per exam
  // Times to an event: the column of event indicators, the value that means an event ("": 1, yes,
  // …), and the horizons up to which survival is predicted, ascending.
  std::string event = {}, event_value = {};
  std::vector<double> horizons = {};
  std::vector<ClassChange> changes = {};  // made before `classes` were read

  bool operator==(const Target&) const = default;
  const TaskKind& kind() const;
  Scale scale() const;
  bool has_classes() const { return !classes.empty(); }
  // True for two classes: the second one is positive, decided for if its probability ≥ threshold.
  bool has_threshold() const;
  bool is_timed() const { return !event.empty(); }  // a time to an event
  std::size_t outputs() const;                      // columns of the head
  // Width of a prediction: a probability per class, one number, or a risk and a probability for
  // each horizon.
  std::size_t scores() const;
};

// How to read a fit's outputs, learnt from its training and validation part.
struct Readout {
  // Regression: of the training labels. Cox: `mean` is the negative mean of the training outputs.
  double mean = 0, deviation = 1;
  double temperature = 1, threshold = 0.5;  // classes (temperature: not ordinal); binary
  // Cox: the event times of the training part, and the cumulative baseline hazard from each on.
  std::vector<double> times = {}, hazards = {};

  bool operator==(const Readout&) const = default;
};

// A target as models and runs store it, followed by its readout. Throws DataError, or what
// nlohmann-json throws.
Json to_json(const Target& target);
Target target_from_json(const Json& json);
void add_readout(Json& target_json, const Target& target, const Readout& readout);
Readout readout_from_json(const Json& target_json, const Target& target);

// Predictions [n, scores] from the target's own outputs [n, outputs]: class probabilities, numbers
// in the unit of the column, or for times the risk and the probabilities of no event up to each
// horizon.
std::vector<double> scores_of(const Target& target, const Readout& readout,
                              std::span<const double> outputs);

// Binary: class 1 if its probability reaches the threshold. Multi-class: the most probable class.
// Ordinal: the median, i.e. the last class that is reached or exceeded with probability above one
// half. Numbers and times: always 0.
std::vector<int> decide(const Target& target, std::span<const double> scores, double threshold);

// Columns from … from + count − 1 of a table [n, width].
std::vector<double> columns(std::span<const double> table, std::size_t width, std::size_t from,
                            std::size_t count);

// Offset of a target's outputs among the concatenated outputs of all targets. OneTarget is Target
// or derived from it.
template <class OneTarget>
std::size_t first_output(const std::vector<OneTarget>& targets, std::size_t target) {
  std::size_t first = 0;
  for (std::size_t t = 0; t < target; ++t) first += targets[t].outputs();
  return first;
}

// "a, b and c" in messages.
std::string names_of(std::span<const Target> targets);

// Parses --target and --task.

struct TargetRequest {
  std::string name;
  std::optional<Task> task;  // none: by the type of the column
  std::string event = {};    // of a time to an event: the column of event indicators

  bool operator==(const TargetRequest&) const = default;
};

// --task: auto, multilabel (several binary columns), or the name of a task.
std::vector<std::string> task_words();

// `targets`: COLUMN, or COLUMN,COLUMN…, each optionally with a task after a colon (age:regression);
// or TIME:EVENT, two columns, likewise (days:died:cox). A text equal to one of `columns` is that
// column; a word after a colon that names a task is that task, even if a column has its name.
// `task`: of targets without their own. ConfigError: an empty or repeated name, a word that is
// neither task nor column, a single column or another task with multilabel, a time without an event
// column or with a task other than cox.
std::vector<TargetRequest> parse_targets(const std::string& targets, const std::string& task,
                                         const std::vector<std::string>& columns);

}  // namespace coldframe::temporal
