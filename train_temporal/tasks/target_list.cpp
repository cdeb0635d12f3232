#include "train_temporal/tasks/target_list.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kMultilabel = "multilabel";

std::optional<Task> task_of(const std::string& word) {
  if (word == kMultilabel) return Task::kBinary;
  if (const auto task = find_task(word); task || word == kAuto) return task;
  throw ConfigError(concat("'", word, "' is no task; expected one of ", join(task_words(), ", ")));
}

TargetRequest parse_target(const std::string& text, const std::optional<Task>& task,
                           const std::vector<std::string>& columns) {
  const auto known = [&](const std::string& name) {
    return std::ranges::find(columns, name) != columns.end();
  };
  const std::size_t colon = text.rfind(':');
  TargetRequest request{text, task};
  if (!known(text) && colon != std::string::npos) {
    request = {trim(text.substr(0, colon)), task_of(lower(trim(text.substr(colon + 1))))};
  }
  if (!request.name.empty()) return request;
  throw ConfigError("--target names an empty column; expected COLUMN or COLUMN,COLUMN");
}

}  // namespace

std::vector<std::string> task_words() {
  std::vector<std::string> words = {kAuto, kMultilabel};
  for (const std::string& name : task_names()) words.push_back(name);
  return words;
}

std::vector<TargetRequest> parse_targets(const std::string& targets, const std::string& task,
                                         const std::vector<std::string>& columns) {
  const bool one = std::ranges::find(columns, targets) != columns.end();
  std::vector<TargetRequest> requests;
  for (const std::string& text : one ? std::vector{targets} : split(targets, ',')) {
    requests.push_back(parse_target(trim(text), task_of(task), columns));
    const TargetRequest& added = requests.back();
    if (std::ranges::count(requests, added.name, &TargetRequest::name) > 1) {
      throw ConfigError(concat("--target names '", added.name, "' twice"));
    }
    if (task == kMultilabel && added.task != Task::kBinary) {
      throw ConfigError(concat("--task multilabel learns binary columns; leave out the task of '",
                               added.name, "' or --task"));
    }
  }
  if (task == kMultilabel && requests.size() < 2) {
    throw ConfigError(
        "--task multilabel needs several binary columns: --target A,B,C, each with its own 0 and "
        "1; a single one is --task binary");
  }
  return requests;
}

}  // namespace coldframe::temporal
