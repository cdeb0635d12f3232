#include "train_temporal/run/predictions.h"

#include <cmath>

#include "common/text/text.h"

namespace coldframe::temporal {

void add_header(std::vector<std::string>& header, std::span<const Target> targets,
                WithLabels labels) {
  for (const Target& target : targets) {
    const std::string prefix = targets.size() > 1 ? target.name + ":" : "";
    if (labels == WithLabels::kYes) header.push_back(prefix + "label");
    for (const std::string& name : target.classes) header.push_back(prefix + "p_" + name);
    header.push_back(prefix + "predicted");
  }
}

std::string label_text(const Target& target, double label) {
  if (std::isnan(label)) return "";
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
