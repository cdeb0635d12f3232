#include "extract/inspect/dry_run/patients.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

#include "cache/format/column_type.h"
#include "common/text/text.h"

namespace coldframe::extract::dry_run {
namespace {

// The part of the split that the exam is in; "" where none is given.
std::string part_of(const frames::ExamSpec& exam) {
  const auto column = std::find_if(exam.columns.begin(), exam.columns.end(), [](const auto& each) {
    return each.first == cache::kSplitColumn;
  });
  if (column == exam.columns.end()) return "";
  const std::string_view part = cache::split_part(column->second);
  return part.empty() ? trim(column->second) : std::string(part);
}

Finding patients_across(const frames::ExamList& input) {
  Finding finding{"patient_across_split",
                  "patients in several parts of the given split",
                  "training refuses them: give all exams of a patient the same 'split'",
                  {}};
  struct Patient {
    std::vector<std::string> exams;
    std::set<std::string> parts;
  };
  std::map<std::string, Patient> patients;
  for (const auto& exam : input.exams) {
    const std::string part = part_of(exam);
    if (exam.patient.empty() || part.empty()) continue;
    Patient& patient = patients[exam.patient];
    patient.exams.push_back(exam.id);
    patient.parts.insert(part);
  }
  for (auto& [name, patient] : patients)
    if (patient.parts.size() > 1)
      finding.cases.push_back({std::move(patient.exams),
                               concat("patient '", name, "' is in ",
                                      join({patient.parts.begin(), patient.parts.end()}, ", "))});
  return finding;
}

Finding without_patient(const frames::ExamList& input) {
  Finding finding{"without_patient",
                  "exams without a patient",
                  "training parts exams by patient: give a column 'patient', or train with "
                  "--exam-is-patient if every exam is of another person",
                  {}};
  FindingCase one;
  for (const auto& exam : input.exams)
    if (exam.patient.empty()) one.exams.push_back(exam.id);
  if (one.exams.empty()) return finding;
  one.detail = concat(one.exams.size(), " of ", plural(input.exams.size(), "exam"));
  finding.cases.push_back(std::move(one));
  return finding;
}

}  // namespace

std::vector<Finding> look_at_patients(const frames::ExamList& input) {
  return {patients_across(input), without_patient(input)};
}

}  // namespace coldframe::extract::dry_run
