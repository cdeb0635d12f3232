#include "train_temporal/run/confounds.h"

#include <algorithm>
#include <cmath>
#include <exception>
#include <map>
#include <optional>
#include <set>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {

namespace {

// Columns that say what is learnt, whose exam it is, or what the models are given anyway.
std::set<std::string> left_out(const Cohort& cohort, const TrainOptions& options) {
  std::set<std::string> names = {"exam", "patient", "split"};
  for (const Labels& labels : cohort.targets) names.insert({labels.name, labels.event});
  for (const std::string& target : split(options.data.target, ','))
    for (const std::string& part : split(target, ':')) names.insert(trim(part));
  for (const CovariateColumn& column : cohort.covariates) names.insert(column.name);
  return names;
}

std::vector<std::string> column_names(const Cohort& cohort) {
  std::vector<std::string> names = cohort.cache.column_names();
  if (!cohort.labels) return names;
  for (const std::string& name : cohort.labels->header)
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  return names;
}

// Times and numbers as text, as the columns are; "" if unknown.
std::string known_text(double value) {
  return std::isfinite(value) ? exact(value) : std::string();
}

std::string frame_size(const cache::ExamInfo& exam) {
  return exam.frame_width == 0 ? "" : concat(exam.frame_width, "×", exam.frame_height);
}

std::string interval(const cache::ExamInfo& exam) {
  const std::vector<float> clock = clock_descriptor(exam, {});
  return clock[kClockUntimed] > 0 ? "" : exact(clock[kClockLogInterval]);
}

struct FileProperty {
  const char* name;
  std::string (*of)(const cache::ExamInfo&);
};
constexpr FileProperty kProperties[] = {
    {"the kind of source", [](const cache::ExamInfo& exam) { return exam.source_kind; }},
    {"the frame size", frame_size},
    {"the number of frames",
     [](const cache::ExamInfo& exam) { return concat(present_frames(exam)); }},
    {"the time between frames", interval},
    {"the time of the first frame",
     [](const cache::ExamInfo& exam) { return known_text(exam.elapsed_start); }},
    {"the date", [](const cache::ExamInfo& exam) { return known_text(exam.start_time); }}};

ExamTrait exams_per_patient(const ConfoundLabels& labels) {
  std::map<std::size_t, std::size_t> exams;
  for (const std::size_t patient : labels.patient) ++exams[patient];
  ExamTrait trait{"the number of the patient's exams", true, {}};
  for (const std::size_t patient : labels.patient) trait.values.push_back(concat(exams[patient]));
  return trait;
}

// The values of a column, one per exam; nothing if it is a column of frames: --labels may have a
// row for each of an exam's frames, which then differ in it.
std::optional<std::vector<std::string>> values_of_exams(const Cohort& cohort,
                                                        const std::string& name) {
  std::vector<std::string> merged;  // is said where a column is asked for
  try {
    return exam_column(cohort.exams(), cohort.labels ? &*cohort.labels : nullptr, name, "target",
                       merged);
  } catch (const DataError&) {
    return std::nullopt;
  }
}

std::vector<ExamTrait> traits_of(const Cohort& cohort, const std::vector<std::size_t>& exams,
                                 const TrainOptions& options) {
  const std::set<std::string> without = left_out(cohort, options);
  std::vector<ExamTrait> traits;
  for (const std::string& name : column_names(cohort)) {
    if (without.contains(name)) continue;
    const auto values = values_of_exams(cohort, name);
    if (!values) continue;
    traits.push_back({name, false, {}});
    for (const std::size_t exam : exams) traits.back().values.push_back((*values)[exam]);
  }
  for (const FileProperty& property : kProperties) {
    traits.push_back({property.name, true, {}});
    for (const std::size_t exam : exams)
      traits.back().values.push_back(property.of(cohort.exams()[exam]));
  }
  return traits;
}

// The labelled exams of each patient, of those who have several classes.
std::map<std::size_t, std::vector<std::size_t>> of_several_classes(
    const Cohort& cohort, const Labels& labels, const std::vector<std::size_t>& used) {
  std::map<std::size_t, std::vector<std::size_t>> exams;
  if (!labels.has_classes() || labels.per_frame) return exams;
  for (const std::size_t exam : used)
    if (labels.value[exam] != kUnlabeled) exams[cohort.patient_number[exam]].push_back(exam);
  std::erase_if(exams, [&](const auto& one) {
    return std::ranges::all_of(one.second, [&](std::size_t exam) {
      return labels.value[exam] == labels.value[one.second.front()];
    });
  });
  return exams;
}

Confounds find_confounds(const Cohort& cohort, std::size_t target,
                         const std::vector<std::size_t>& used, const TrainOptions& options,
                         double level) {
  const Labels& labels = cohort.targets[target];
  if (labels.per_frame || labels.is_timed()) return {};
  ConfoundLabels known;
  known.classes = labels.classes.size();
  std::vector<std::size_t> exams;
  for (const std::size_t exam : used) {
    if (labels.value[exam] == kUnlabeled) continue;
    exams.push_back(exam);
    known.patient.push_back(cohort.patient_number[exam]);
    known.label.push_back(labels.has_classes() ? labels.value[exam] : 0);
    if (!labels.has_classes()) known.number.push_back(labels.number[exam]);
  }
  std::vector<ExamTrait> traits = traits_of(cohort, exams, options);
  traits.push_back(exams_per_patient(known));
  return find_confounds(known, traits, level);
}

}  // namespace

Confounds confounds_of(const Cohort& cohort, std::size_t target,
                       const std::vector<std::size_t>& used, const TrainOptions& options,
                       double level) {
  try {
    return find_confounds(cohort, target, used, options, level);
  } catch (const std::exception& error) {
    log_warning(concat("not looked at what predicts '", cohort.targets[target].name,
                       "' without images: ", error.what()));
    return {};
  }
}

std::string tell_several_classes(const Cohort& cohort, const Labels& labels) {
  constexpr std::size_t kTold = 3;
  const auto patients = of_several_classes(cohort, labels, labels.labeled_exams());
  if (patients.empty()) return {};
  std::vector<std::string> told;
  for (const auto& [patient, exams] : patients) {
    if (told.size() == kTold) break;
    const auto class_of = [&](std::size_t exam) {
      return concat("'", cohort.exams()[exam].id, "' ",
                    labels.classes[static_cast<std::size_t>(labels.value[exam])]);
    };
    const auto other = std::ranges::find_if(
        exams, [&](std::size_t exam) { return labels.value[exam] != labels.value[exams.front()]; });
    told.push_back(concat("'", cohort.patients[exams.front()], "' (", class_of(exams.front()), ", ",
                          class_of(*other), ")"));
  }
  return concat(plural(patients.size(), "patient"), patients.size() == 1 ? " has" : " have",
                " exams of several classes of '", labels.name, "': ", join(told, ", "),
                patients.size() > kTold ? ", …" : "");
}

std::size_t patients_of_several_classes(const Cohort& cohort, const Labels& labels,
                                        const std::vector<std::size_t>& used) {
  return of_several_classes(cohort, labels, used).size();
}

}  // namespace coldframe::temporal
