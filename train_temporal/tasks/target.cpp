#include "train_temporal/tasks/target.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kMostWholeNumbers = 20;  // more are taken for a measurement

// What a file may say of a target of this kind.
std::string expected_target(const TaskKind& kind) {
  if (kind.names_classes()) return kind.most_classes() == 2 ? "2 classes" : "at least 2 classes";
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
  const bool measured = numeric && (fraction || values.size() > kMostWholeNumbers);
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

Json to_json(const Target& target) {
  Json json = {{"name", target.name},
               {"task", task_name(target.task)},
               {"classes", target.classes},
               {"per_frame", target.per_frame}};
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

}  // namespace coldframe::temporal
