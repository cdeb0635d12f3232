#include "train_temporal/labels/target.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/labels/task_kind.h"

namespace coldframe::temporal {

namespace {

constexpr std::size_t kMaxWholeNumbers = 20;  // more are taken for a measurement

// What a file may say of a target of this kind.
std::string expected_target(const TaskKind& kind) {
  if (kind.names_classes()) return kind.max_classes() == 2 ? "2 classes" : "at least 2 classes";
  if (kind.scale != Scale::kTime) return "no class";
  return "no class, an event, and horizons that ascend from above 0";
}

}  // namespace

const TaskKind& kind_of(Task task) {
  return kTasks[static_cast<std::size_t>(task)]();
}

Task task_of_values(std::span<const std::string> values, bool numeric) {
  if (values.size() == 2) return Task::kBinary;
  const bool fraction = numeric && std::ranges::any_of(values, [](const std::string& value) {
                          double number = 0;
                          return parse_double(value, number) && number != std::floor(number);
                        });
  const bool measured = numeric && (fraction || values.size() > kMaxWholeNumbers);
  return measured && values.size() > 2 ? Task::kRegression : Task::kMulticlass;
}

const char* task_name(Task task) {
  return kind_of(task).name;
}

std::optional<Task> find_task(std::string_view name) {
  for (const auto kind : kTasks)
    if (kind().name == name) return kind().task;
  return {};
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const auto kind : kTasks) names.push_back(kind().name);
  return names;
}

const TaskKind& Target::kind() const {
  return kind_of(task);
}

std::size_t Target::outputs() const {
  return kind().outputs(*this);
}

std::size_t Target::scores() const {
  return kind().scores(*this);
}

Scale Target::scale() const {
  return kind().scale;
}

bool Target::has_threshold() const {
  return kind().has_threshold();
}

std::string text_of(const std::vector<ClassChange>& changes,
                    const std::function<std::string(const std::string&)>& name) {
  std::vector<std::string> texts;
  for (const ClassChange& change : changes) {
    std::vector<std::string> names;
    for (const std::string& from : change.from) names.push_back(name(from));
    const std::string all = join(names, " and ");
    texts.push_back(change.to.empty() ? concat("without ", all)
                                      : concat(all, " as ", name(change.to)));
  }
  return join(texts, ", ");
}

std::vector<ClassChange> class_changes_from_json(const Json& json) {
  std::vector<ClassChange> changes;
  for (const Json& entry : json.value("class_changes", Json::array()))
    changes.push_back(
        {entry.at("from").get<std::vector<std::string>>(), entry.value("to", std::string())});
  return changes;
}

Json to_json(const Target& target) {
  Json json = {{"name", target.name},
               {"task", task_name(target.task)},
               {"classes", target.classes},
               {"per_frame", target.per_frame}};
  for (const ClassChange& change : target.changes) {
    Json entry = {{"from", change.from}};
    if (!change.to.empty()) entry["to"] = change.to;
    json["class_changes"].push_back(entry);
  }
  if (target.scale() != Scale::kTime) return json;
  json["event"] = target.event;
  json["event_value"] = target.event_value;
  json["horizons"] = target.horizons;
  return json;
}

Target target_from_json(const Json& json) {
  const auto word = json.at("task").get<std::string>();
  const std::optional<Task> task = find_task(word);
  if (!task)
    throw DataError(
        concat("unknown task '", word, "'; this version knows ", join(task_names(), ", ")));
  Target target{json.at("name").get<std::string>(), *task,
                json.at("classes").get<std::vector<std::string>>(),
                json.at("per_frame").get<bool>()};
  target.changes = class_changes_from_json(json);
  if (target.scale() == Scale::kTime) {
    target.event = json.at("event").get<std::string>();
    target.event_value = json.at("event_value").get<std::string>();
    target.horizons = json.at("horizons").get<std::vector<double>>();
  }
  if (target.kind().is_sound(target)) return target;
  std::string found = concat(target.classes.size(), " classes");
  if (target.scale() == Scale::kTime) found += concat(", ", target.horizons.size(), " horizons");
  throw DataError(concat("target '", target.name, "' of the task ", word, ": ", found,
                         "; expected ", expected_target(target.kind())));
}

void add_readout(Json& json, const Target& target, const Readout& readout) {
  json["mean"] = readout.mean;
  json["deviation"] = readout.deviation;
  json["temperature"] = readout.temperature;
  json["threshold"] = readout.threshold;
  if (target.scale() != Scale::kTime) return;
  json["times"] = readout.times;
  json["hazards"] = readout.hazards;
}

Readout readout_from_json(const Json& json, const Target& target) {
  Readout readout{json.at("mean").get<double>(), json.at("deviation").get<double>(),
                  json.at("temperature").get<double>(), json.at("threshold").get<double>()};
  if (target.scale() == Scale::kTime) {
    readout.times = json.at("times").get<std::vector<double>>();
    readout.hazards = json.at("hazards").get<std::vector<double>>();
  }
  if (target.kind().is_sound_readout(target, readout)) return readout;
  throw DataError(
      concat("target '", target.name, "': its times and hazards do not belong together"));
}

std::vector<double> scores_of(const Target& target, const Readout& readout,
                              std::span<const double> outputs) {
  return target.kind().scores_of(target, readout, outputs);
}

std::vector<int> decide(const Target& target, std::span<const double> scores, double threshold) {
  return target.kind().decide(target, scores, threshold);
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

namespace {

constexpr const char* kAuto = "auto";
constexpr const char* kMultilabel = "multilabel";

std::optional<Task> task_of(const std::string& word) {
  if (word == kMultilabel) return Task::kBinary;
  if (const auto task = find_task(word); task || word == kAuto) return task;
  throw ConfigError(concat("'", word, "' is no task; expected one of ", join(task_words(), ", "),
                           ", or after a time the column that says whether its event came"));
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
                             shell_word(request.name + ":EVENT")));
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
