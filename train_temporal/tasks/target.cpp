#include "train_temporal/tasks/target.h"

#include <algorithm>
#include <array>

#include "common/text/text.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

std::span<const TaskKind* const> kinds() {
  static const std::array all = {&binary_task(),     &multiclass_task(), &ordinal_task(),
                                 &regression_task(), &cox_task(),        &hazards_task()};
  return all;
}

}  // namespace

const TaskKind& kind_of(Task task) {
  return **std::ranges::find(kinds(), task, &TaskKind::task);
}

const char* task_name(Task task) {
  return kind_of(task).name;
}

std::optional<Task> find_task(std::string_view name) {
  for (const TaskKind* kind : kinds())
    if (kind->name == name) return kind->task;
  return {};
}

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskKind* kind : kinds()) names.push_back(kind->name);
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

std::vector<double> scores_of(const Target& target, const Readout& reading,
                              std::span<const double> outputs) {
  return target.kind().scores_of(target, reading, outputs);
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
