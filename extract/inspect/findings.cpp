#include "extract/inspect/findings.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "cache/format/exam.h"
#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source_file.h"
#include "extract/input/exam_list.h"
#include "extract/inspect/survey.h"

namespace coldframe::extract::dry_run {

// The same picture in two exams: a copy, a wrong id, or a patient on both sides of a split.

struct SameImage {
  std::vector<std::size_t> exams;  // indices into the input, ascending, two or more
  bool patients_differ = false;    // two different known patients are among them
  std::string where;               // a file's name, or "sampled frames"
};

// Finds exams that share images, by files of equal content (compared as far as sizes and first
// kilobytes leave it open) and by equal pixels of the sampled frames. An exam that names other
// frames of the same file is not meant. Returns one entry per set of exams.
std::vector<SameImage> find_same_images(const frames::ExamList& input, const Survey& survey);

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
  return exam.bright_level >= 0 && exam.bright_level < kDark
             ? concat("999 of 1000 levels are at most ", exam.bright_level, " of 255")
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
       "check that these frames look right; the other readings are stated next to each, and where "
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
      {"bright_region", "bright marks that do not move (burned-in text, a scale or a trace)",
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
  constexpr std::size_t kMinExams = 4;
  Finding finding{"bright_region_across_exams",
                  "the same bright marks in all exams of one size",
                  "such marks tell one device or site from another: remove them with --crop or "
                  "--mask",
                  {}};
  for (const auto& [size, parts] : survey.across) {
    if (parts.frames() < kMinExams) continue;
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

namespace {

constexpr std::string_view kDigits = "0123456789";
constexpr std::string_view kBetween = "_-. ";
constexpr std::array<std::string_view, 7> kMaskWords{"mask",  "masks", "seg",       "segmentation",
                                                     "label", "gt",    "annotation"};

// The path without suffix, ".nii.gz" included.
std::string stem_of(const std::string& name) {
  std::filesystem::path path = name;
  path.replace_extension();
  if (lower(path.extension().string()) == ".nii") path.replace_extension();
  return path.generic_string();
}

// "x_mask" -> "x"; "" for what is called otherwise.
std::string image_of_mask(const std::string& stem) {
  const auto at = stem.find_last_of(kBetween);
  if (at == std::string::npos || at == 0) return "";
  const std::string word = lower(std::string_view(stem).substr(at + 1));
  const bool mask = std::find(kMaskWords.begin(), kMaskWords.end(), word) != kMaskWords.end();
  return mask ? stem.substr(0, at) : "";
}

// "pat1_2" -> {"pat1", "2"}: what stands before the frame's number. Empty where it has no number
// itself.
std::pair<std::string, std::string> part_of_frame(const std::string& stem) {
  const auto number = stem.find_last_not_of(kDigits) + 1;
  if (number == 0 || number == stem.size()) return {};
  const auto end = stem.find_last_not_of(kBetween, number - 1);
  if (end == std::string::npos || end + 1 == number) return {};
  const std::string before = std::filesystem::path(stem.substr(0, end + 1)).filename().string();
  if (before.find_first_of(kDigits) == std::string::npos) return {};
  return {before, stem.substr(number)};
}

std::string several_series(const frames::ExamSpec& exam) {
  std::map<std::string, std::set<std::string>> parts_of_number, numbers_of_part;
  for (const auto& item : exam.items) {
    if (item.path.empty() || item.first != 0 || item.last >= 0) continue;
    const auto [part, number] = part_of_frame(stem_of(item.name));
    if (part.empty()) continue;
    parts_of_number[number].insert(part);
    numbers_of_part[part].insert(number);
  }
  // "1_of_2" and "2_of_2" have one number after each part, and are of one series.
  const bool counted = std::any_of(numbers_of_part.begin(), numbers_of_part.end(),
                                   [](const auto& each) { return each.second.size() > 1; });
  if (!counted) return "";
  for (const auto& [number, parts] : parts_of_number)
    if (parts.size() > 1)
      return concat("frame ", number, " of '", *parts.begin(), "' and of '",
                    *std::next(parts.begin()), "'",
                    parts.size() > 2 ? concat(" and ", parts.size() - 2, " more") : "");
  return "";
}

}  // namespace

std::vector<Finding> look_at_file_names(const frames::ExamList& input) {
  Finding several{"several_series",
                  "files of several patients or series in one exam, by their names",
                  "give each a folder or rows of its own, or part them by --exam-from",
                  {}};
  Finding masks{"masks",
                "masks beside images, by their names",
                "masks are taken for frames or exams: move them out of the input",
                {}};
  std::set<std::string> stems;
  for (const auto& exam : input.exams)
    for (const auto& item : exam.items)
      if (!item.path.empty()) stems.insert(stem_of(item.name));
  for (const auto& exam : input.exams) {
    if (!exam.id_from_header) {
      if (std::string detail = several_series(exam); !detail.empty())
        several.cases.push_back({{exam.id}, std::move(detail)});
    }
    const auto mask = std::find_if(exam.items.begin(), exam.items.end(), [&](const auto& item) {
      return !item.path.empty() && stems.contains(image_of_mask(stem_of(item.name)));
    });
    if (mask != exam.items.end()) masks.cases.push_back({{exam.id}, concat("'", mask->name, "'")});
  }
  return {std::move(several), std::move(masks)};
}

namespace {

using Exams = std::vector<std::size_t>;

// A file, and the exams that use it.
struct File {
  std::filesystem::path path;
  std::string name;
  std::set<std::size_t> exams;
};

bool overlap(const frames::ExamItem& a, const frames::ExamItem& b) {
  return (a.last < 0 || b.first <= a.last) && (b.last < 0 || a.first <= b.last);
}

class Search {
 public:
  Search(const frames::ExamList& input, const Survey& survey) : input_(input), survey_(survey) {}
  std::vector<SameImage> run();

 private:
  void note(std::set<std::size_t> exams, const std::string& where);
  void compare_uses();
  void compare_files();
  void compare_content(const std::vector<const File*>& files);
  void compare_pictures();

  const frames::ExamList& input_;
  const Survey& survey_;
  std::map<std::filesystem::path, File> files_;
  std::map<Exams, std::string> found_;
};

void Search::note(std::set<std::size_t> exams, const std::string& where) {
  if (exams.size() > 1) found_.try_emplace(Exams(exams.begin(), exams.end()), where);
}

// The same file named by several exams, with frames in common.
void Search::compare_uses() {
  std::map<std::filesystem::path, std::vector<std::pair<std::size_t, const frames::ExamItem*>>>
      uses;
  for (std::size_t exam = 0; exam < input_.exams.size(); ++exam) {
    for (const auto& item : input_.exams[exam].items) {
      if (item.path.empty()) continue;
      uses[item.path].emplace_back(exam, &item);
      File& file = files_[item.path];
      file.path = item.path;
      file.name = item.name;
      file.exams.insert(exam);
    }
  }
  for (const auto& [path, users] : uses) {
    std::set<std::size_t> exams;
    for (std::size_t i = 1; i < users.size(); ++i) {
      for (std::size_t j = 0; j < i && j < 64; ++j) {
        if (users[i].first == users[j].first || !overlap(*users[i].second, *users[j].second))
          continue;
        exams.insert({users[i].first, users[j].first});
      }
    }
    note(std::move(exams), files_[path].name);
  }
}

void Search::compare_files() {
  std::map<std::uintmax_t, std::vector<const File*>> by_size;
  for (const auto& [path, file] : files_) {
    std::error_code error;
    const auto size = std::filesystem::file_size(path, error);
    if (!error && size > 0) by_size[size].push_back(&file);
  }
  for (const auto& [size, files] : by_size)
    if (files.size() > 1) compare_content(files);
}

std::string head_digest(const std::filesystem::path& path) {
  const InputFile file(path);
  std::vector<std::byte> head(1 << 16);
  head.resize(file.read_some(0, head));
  return to_hex(xxh3_128(head));
}

std::string whole_digest(const std::filesystem::path& path) {
  frames::ExamSpec exam;
  exam.items.emplace_back().path = path;
  return frames::source_digest(exam);
}

// Files of one size: by their first 64 KiB, then as a whole.
void Search::compare_content(const std::vector<const File*>& files) {
  std::map<std::string, std::vector<const File*>> by_head, by_content;
  const auto sort_by = [](auto digest, const std::vector<const File*>& all, auto& groups) {
    for (const File* file : all) {
      if (stop_requested()) throw Interrupted("stopped; a dry run starts from the beginning");
      try {
        groups[digest(file->path)].push_back(file);
      } catch (const DataError&) {  // its exam says so
      }
    }
  };
  sort_by(head_digest, files, by_head);
  for (const auto& [digest, alike] : by_head)
    if (alike.size() > 1) sort_by(whole_digest, alike, by_content);
  for (const auto& [digest, equal] : by_content) {
    if (equal.size() < 2) continue;
    std::set<std::size_t> exams;
    for (const File* file : equal) exams.insert(file->exams.begin(), file->exams.end());
    note(std::move(exams), equal.front()->name);
  }
}

void Search::compare_pictures() {
  std::map<Digest, std::set<std::size_t>> exams;
  for (std::size_t exam = 0; exam < survey_.exams.size(); ++exam) {
    for (const Digest& picture : survey_.exams[exam].pictures) exams[picture].insert(exam);
  }
  for (auto& [picture, holders] : exams) note(std::move(holders), "the pixels of sampled frames");
}

std::vector<SameImage> Search::run() {
  compare_uses();
  compare_files();
  compare_pictures();
  std::vector<SameImage> result;
  for (const auto& [exams, where] : found_) {
    std::set<std::string> patients;
    for (const std::size_t exam : exams)
      if (!input_.exams[exam].patient.empty()) patients.insert(input_.exams[exam].patient);
    result.push_back({exams, patients.size() > 1, where});
  }
  return result;
}

}  // namespace

std::vector<SameImage> find_same_images(const frames::ExamList& input, const Survey& survey) {
  return Search(input, survey).run();
}

}  // namespace coldframe::extract::dry_run
