#include "extract/inspect/dry_run/findings.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "cache/format/exam.h"
#include "common/text/text.h"
#include "extract/inspect/dry_run/file_names.h"
#include "extract/inspect/dry_run/same_images.h"

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

// One line of the table below: what concerns single exams.
struct Check {
  const char *kind, *title, *advice;
  // Returns what to say of the exam; "" when it is in order.
  std::function<std::string(const ExamSurvey&)> detail;
};

std::string size_text(const Size& size) {
  return concat(size.first, "×", size.second);
}

std::string rect_text(const frames::Rect& rect) {
  return concat(rect.width, "×", rect.height, " pixels at ", rect.x, ",", rect.y);
}

std::string count_of(std::size_t count, const char* noun) {
  return count ? plural(count, noun) : std::string();
}

// Slices and channels of one time point have one time by right.
std::string duplicate_times(const ExamSurvey& exam) {
  const bool by_right = exam.kind.starts_with("nifti") || exam.kind.starts_with("stack");
  return by_right ? "" : count_of(exam.timing.duplicate, "time");
}

// Slices of a volume have no times by right.
std::string unknown_times(const ExamSurvey& exam) {
  const bool unknown = exam.failure.empty() && exam.timing.kind == TimingKind::kUnknown;
  return unknown && exam.frames > 1 && !exam.kind.starts_with("nifti")
             ? plural(exam.frames, "frame")
             : "";
}

std::string dark(const ExamSurvey& exam) {
  constexpr int kDark = 32;
  return exam.brightest >= 0 && exam.brightest < kDark
             ? concat("no level above ", exam.brightest, " of 255")
             : "";
}

std::string mixed_sizes(const ExamSurvey& exam) {
  if (exam.sizes.size() < 2) return "";
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < exam.sizes.size() && i < 4; ++i)
    texts.push_back(size_text(exam.sizes[i]));
  return join(texts, ", ");
}

std::string bright_regions(const ExamSurvey& exam) {
  if (exam.bright.empty()) return "";
  const auto more = exam.bright.size() - 1;
  return concat(rect_text(exam.bright.front()), more ? concat(" and ", more, " more") : "");
}

std::vector<Check> checks() {
  return {
      {"unreadable", "cannot be extracted",
       "mend or remove these files; the job would go on without them and list them as failures",
       [](const ExamSurvey& exam) { return exam.failure; }},
      {"lost_frames", "frames that cannot be read",
       "mend these files; the job would go on without those frames, keep their slots masked and "
       "list them as failures",
       [](const ExamSurvey& exam) {
         return exam.lost && exam.failure.empty()
                    ? concat(plural(exam.lost, "frame"), ": ", exam.fault)
                    : "";
       }},
      {"partly_finite_frames", "frames of which some values are NaN or infinite",
       "check that these values stand for what is outside the image: NaN becomes black, an "
       "infinity black or white, and neither has a part in the window",
       [](const ExamSurvey& exam) { return count_of(exam.partly_finite, "frame"); }},
      {"decreasing_times", "times decrease within the exam",
       "pass --sort time, correct the times, or accept them with --allow-unordered",
       [](const ExamSurvey& exam) { return count_of(exam.timing.decreasing, "time"); }},
      {"duplicate_times", "two frames at the same time",
       "correct the times if the model shall use them; time encodings see an interval of 0",
       duplicate_times},
      {"times_unknown", "times unknown",
       "train then knows the frames' order only; if the times matter and are known, give them in a "
       "manifest's column time",
       unknown_times},
      {"order_by_names", "their order rests on file names alone",
       "check that the names count the frames in time; a manifest's column time or the order of "
       "its "
       "rows says it surely",
       [](const ExamSurvey& exam) {
         return exam.failure.empty() && exam.basis.names_alone ? plural(exam.frames, "frame") : "";
       }},
      {"notes", "read otherwise than their headers say, or in a way that may not be meant",
       "check that these frames look right; what can be done otherwise is said beside, and where "
       "headers are wrong, their writer ought to mend them",
       [](const ExamSurvey& exam) {
         if (exam.notes.empty()) return std::string();
         return concat(
             "'", exam.notes.front().file, "': ", exam.notes.front().text,
             exam.notes.size() > 1 ? concat(" and ", exam.notes.size() - 1, " more") : "");
       }},
      {"dark", "dark throughout",
       "the backbone sees next to nothing in them; give --window 1%,99% or CENTER,WIDTH where one "
       "bright spot darkens the rest, or values fill few of their bits (12-bit data in "
       "16-bit PNG or video)",
       dark},
      {"mixed_sizes", "frames of different sizes in one exam",
       "check that they are one series; a --mask or a --crop in pixels fits one size only",
       mixed_sizes},
      {"one_frame", "exams of a single frame",
       "a temporal model has nothing to follow in them; check how files are grouped into exams",
       [](const ExamSurvey& exam) {
         return exam.failure.empty() && exam.frames == 1 ? std::string("1 frame") : "";
       }},
      {"missing_frames", "frames without a file",
       "their slots are kept and masked; complete the manifest if the files exist",
       [](const ExamSurvey& exam) { return count_of(exam.missing, "frame"); }},
      {"bright_region", "bright marks that stand still (burned-in text, a scale or a trace)",
       "such marks can give a label away: remove them with --crop auto, --crop x,y,w,h or --mask",
       bright_regions},
  };
}

Finding run_check(const Check& check, const frames::ExamList& input, const Survey& survey) {
  Finding finding{check.kind, check.title, check.advice, {}};
  for (std::size_t i = 0; i < survey.exams.size(); ++i) {
    const std::string detail = check.detail(survey.exams[i]);
    if (!detail.empty()) finding.cases.push_back({{input.exams[i].id}, detail});
  }
  return finding;
}

// Marks at the same place in many exams that have too few frames to show them one by one.
Finding marks_across(const Survey& survey) {
  constexpr std::size_t kLeastExams = 4;
  Finding finding{"bright_region_across_exams",
                  "the same bright marks in all exams of one size",
                  "such marks tell one device or site from another: remove them with --crop or "
                  "--mask",
                  {}};
  for (const auto& [size, parts] : survey.across) {
    if (parts.frames() < kLeastExams) continue;
    const auto regions = parts.bright_regions();
    if (regions.empty()) continue;
    finding.cases.push_back({{},
                             concat(rect_text(regions.front()), " in all ", parts.frames(),
                                    " exams of ", size_text(size), " pixels")});
  }
  return finding;
}

void add_same_images(const frames::ExamList& input, const Survey& survey,
                     std::vector<Finding>& findings) {
  Finding across{"same_image_other_patient",
                 "the same image in exams of different patients",
                 "find out whose it is: with it on both sides of a split, results are too good",
                 {}};
  Finding within{
      "same_image",
      "the same image in several exams",
      "remove the copies, or keep these exams in one patient so that no split parts them",
      {}};
  for (const SameImage& same : find_same_images(input, survey)) {
    FindingCase one{{}, same.where};
    for (const std::size_t exam : same.exams) one.exams.push_back(input.exams[exam].id);
    (same.patients_differ ? across : within).cases.push_back(std::move(one));
  }
  findings.push_back(std::move(across));
  findings.push_back(std::move(within));
}

}  // namespace

std::vector<Finding> find_all(const frames::ExamList& input, const Survey& survey,
                              bool allow_unordered) {
  std::vector<Finding> findings;
  for (const Check& check : checks()) {
    const bool accepted = allow_unordered && std::string_view(check.kind) == "decreasing_times";
    if (!accepted) findings.push_back(run_check(check, input, survey));
  }
  for (Finding& finding : look_at_file_names(input)) findings.push_back(std::move(finding));
  findings.push_back(patients_across(input));
  findings.push_back(without_patient(input));
  add_same_images(input, survey, findings);
  findings.push_back(marks_across(survey));
  std::erase_if(findings, [](const Finding& finding) { return finding.cases.empty(); });
  return findings;
}

}  // namespace coldframe::extract::dry_run
