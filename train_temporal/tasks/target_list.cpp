#include "train_temporal/tasks/target_list.h"

#include <algorithm>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kMultilabel = "multilabel";

std::optional<Task> task_of(const std::string& word) {
  if (word == kMultilabel) return Task::kBinary;
  if (const auto task = find_task(word); task || word == kAuto) return task;
  throw ConfigError(concat("'", word, "' is no task; expected one of ", join(task_words(), ", "),
                           ", or behind a time the column that says whether its event came"));
}

bool is_task(const std::string& word) {
  const std::vector<std::string> words = task_words();
  return std::ranges::find(words, word) != words.end();
}

// Gives what stands before the last colon and behind it; nothing behind it where there is none.
std::pair<std::string, std::string> at_last_colon(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return {text, {}};
  return {trim(text.substr(0, colon)), trim(text.substr(colon + 1))};
}

void check_survival(const TargetRequest& request) {
  const bool survival = request.task && kind_of(*request.task).scale == Scale::kTime;
  if (survival && request.event.empty())
    throw ConfigError(concat("'", request.name, "' as ", task_name(*request.task),
                             " needs the column that says whether the event came: --target ",
                             request.name, ":EVENT"));
  if (survival || request.event.empty()) return;
  throw ConfigError(concat("--target ", request.name, ":", request.event,
                           " is a time to an event, learnt as cox, not as ",
                           task_name(*request.task)));
}

TargetRequest parse_target(const std::string& text, const std::optional<Task>& task,
                           const std::vector<std::string>& columns) {
  const auto known = [&](const std::string& name) {
    return std::ranges::find(columns, name) != columns.end();
  };
  TargetRequest request{text, task};
  if (const auto [name, word] = at_last_colon(text); !known(text) && name != text) {
    const bool is_event = !is_task(lower(word)) && known(word);
    request = {is_event ? text : name, is_event ? task : task_of(lower(word))};
    if (const auto [time, event] = at_last_colon(request.name);
        !known(request.name) && time != request.name && known(event)) {
      request = {time, request.task.value_or(Task::kCox), event};
    }
  }
  check_survival(request);
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
