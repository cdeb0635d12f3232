// Parses --target and --task.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "train_temporal/tasks/target.h"

namespace coldframe::temporal {

struct TargetRequest {
  std::string name;
  std::optional<Task> task;  // none: by the type of the column
  std::string event = {};    // of a time to an event: the column that says whether it came

  bool operator==(const TargetRequest&) const = default;
};

// --task: auto, multilabel (several binary columns), or the name of a task.
std::vector<std::string> task_words();

// `targets`: COLUMN, or COLUMN,COLUMN…, each with or without a task of its own behind a colon
// (age:regression); or TIME:EVENT, two columns, likewise (days:died:cox). A text that is one of
// `columns` as it stands is that column; a word behind a colon that is a task is one, also where a
// column has its name. `task`: of the targets that name none. ConfigError: an empty or repeated
// name, a word that is neither task nor column, a single column or another task with multilabel, a
// time without a column of events or with another task than cox.
std::vector<TargetRequest> parse_targets(const std::string& targets, const std::string& task,
                                         const std::vector<std::string>& columns);

}  // namespace coldframe::temporal
