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

  bool operator==(const TargetRequest&) const = default;
};

// --task: auto, multilabel (several binary columns), or the name of a task.
std::vector<std::string> task_words();

// `targets`: COLUMN, or COLUMN,COLUMN…, each with or without a task of its own behind a colon
// (age:regression). A text that is one of `columns` as it stands is that column. `task`: of the
// targets that name none. ConfigError: an empty or repeated name, a word that is no task, a single
// column or another task with multilabel.
std::vector<TargetRequest> parse_targets(const std::string& targets, const std::string& task,
                                         const std::vector<std::string>& columns);

}  // namespace coldframe::temporal
