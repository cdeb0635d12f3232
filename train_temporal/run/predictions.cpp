#include "train_temporal/run/predictions.h"

#include "common/text/text.h"
#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {

void add_header(std::vector<std::string>& header, std::span<const Target> targets,
                WithLabels labels) {
  for (const Target& target : targets) {
    const std::string prefix = targets.size() > 1 ? target.name + ":" : "";
    const auto add = [&](const std::vector<std::string>& names) {
      for (const std::string& name : names) header.push_back(prefix + name);
    };
    if (labels == WithLabels::kYes) add(target.kind().label_columns());
    add(target.kind().score_columns(target));
    if (target.has_classes()) add({"predicted"});
  }
}

void add_label(std::vector<std::string>& row, const Target& target, double label) {
  for (std::string& field : target.kind().label_fields(target, label))
    row.push_back(std::move(field));
}

void add_prediction(std::vector<std::string>& row, const Target& target,
                    std::span<const double> scores, int decision) {
  for (double score : scores) row.push_back(exact(score));
  if (target.has_classes()) row.push_back(target.classes[static_cast<std::size_t>(decision)]);
}

std::vector<std::size_t> present_slots(const cache::ExamInfo& exam) {
  std::vector<std::size_t> slots;
  for (std::size_t t = 0; t < exam.frames(); ++t) {
    if (exam.present[t]) slots.push_back(t);
  }
  return slots;
}

}  // namespace coldframe::temporal
