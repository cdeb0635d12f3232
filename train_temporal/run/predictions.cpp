#include "train_temporal/run/predictions.h"

#include <cmath>

#include "common/text/text.h"
#include "train_temporal/tasks/survival.h"

namespace coldframe::temporal {

std::vector<std::string> score_names(const Target& target) {
  if (target.has_classes()) return target.classes;
  if (!target.is_survival()) return {""};
  std::vector<std::string> names = {"risk"};
  for (const double horizon : target.horizons) names.push_back("survival_" + exact(horizon));
  return names;
}

std::vector<std::string> score_columns(const Target& target) {
  std::vector<std::string> names = score_names(target);
  for (std::string& name : names)
    if (!target.is_survival()) name = target.has_classes() ? "p_" + name : "predicted";
  return names;
}

void add_header(std::vector<std::string>& header, std::span<const Target> targets,
                WithLabels labels) {
  for (const Target& target : targets) {
    const std::string prefix = targets.size() > 1 ? target.name + ":" : "";
    if (labels == WithLabels::kYes) header.push_back(prefix + "label");
    if (labels == WithLabels::kYes && target.is_survival()) header.push_back(prefix + "event");
    for (const std::string& name : score_columns(target)) header.push_back(prefix + name);
    if (target.has_classes()) header.push_back(prefix + "predicted");
  }
}

void add_label(std::vector<std::string>& row, const Target& target, double label) {
  if (!target.is_survival()) {
    row.push_back(label_text(target, label));
    return;
  }
  row.push_back(std::isnan(label) ? "" : exact(time_of(label)));
  row.push_back(std::isnan(label) ? "" : has_event(label) ? "1" : "0");
}

std::string label_text(const Target& target, double label) {
  if (std::isnan(label)) return "";
  if (target.is_survival()) return exact(time_of(label)) + (has_event(label) ? "" : "+");
  return target.has_classes() ? target.classes[static_cast<std::size_t>(label)] : exact(label);
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
