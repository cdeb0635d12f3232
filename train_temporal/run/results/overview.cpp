#include "train_temporal/run/results/overview.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "train_temporal/tasks/task_kind.h"

namespace coldframe::temporal {
namespace {

ExamFlow flow_of(const Cohort& cohort, const Labels& labels, const std::vector<std::size_t>& used) {
  std::set<std::string> read, failed;
  ExamFlow flow;
  for (std::size_t i = 0; i < cohort.exams().size(); ++i) {
    read.insert(cohort.exams()[i].id);
    if (present_frames(cohort.exams()[i]) == 0)
      ++flow.without_frame;
    else
      flow.without_label += labels.value[i] == kUnlabeled;
  }
  for (const cache::Failure& failure : cohort.cache.failures())
    if (!read.contains(failure.exam)) failed.insert(failure.exam);
  flow.failed = failed.size();
  flow.found = read.size() + failed.size();
  flow.used = static_cast<std::size_t>(std::ranges::count_if(
      used, [&](std::size_t exam) { return labels.value[exam] != kUnlabeled; }));
  flow.in_no_part = flow.found - flow.failed - flow.without_frame - flow.without_label - flow.used;
  return flow;
}

}  // namespace

DataOverview overview(const Cohort& cohort, std::size_t target,
                      const std::vector<std::size_t>& used) {
  const Labels& labels = cohort.targets[target];
  DataOverview data;
  std::vector<std::size_t> labels_of(labels.classes.size());
  std::vector<std::set<std::size_t>> patients(labels.classes.size());
  std::set<std::size_t> all_patients;
  ScoredExams all;
  for (std::size_t exam : used) {
    if (labels.value[exam] == kUnlabeled) continue;
    ++data.exams;
    all_patients.insert(cohort.patient_number[exam]);
    data.frames_per_exam.push_back(present_frames(cohort.exams()[exam]));
    for (std::size_t row = 0; row < labels.rows(exam); ++row) {
      const double label = labels.at(exam, row);
      if (std::isnan(label)) {
        ++data.masked_frames;
      } else if (labels.has_classes()) {
        ++labels_of[static_cast<std::size_t>(label)];
        patients[static_cast<std::size_t>(label)].insert(cohort.patient_number[exam]);
      } else {
        labels.kind().add_label(all, label);
      }
    }
  }
  data.numbers = all.number;
  data.events = static_cast<std::size_t>(std::ranges::count(all.label, 1));
  data.patients = all_patients.size();
  data.unlabeled = labels.unlabeled;
  data.flow = flow_of(cohort, labels, used);
  for (std::size_t c = 0; c < labels_of.size(); ++c) {
    data.exams_per_class.emplace_back(labels.classes[c], labels_of[c]);
    data.patients_per_class.push_back(patients[c].size());
  }
  return data;
}

}  // namespace coldframe::temporal
