// Whether a cache and a run store patients alike: under two names, one patient could lie on both
// sides of a split.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "cache/store/reader.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"
#include "extract/input/select_frames.h"

namespace coldframe::extract {

// The recipe's note: "as named", "hashes of salt 3fa91c (NFKC_Casefold)"; "" of an input that names
// no patient.
std::string patients_note(const frames::PatientNames& patients);

// CacheError when the cached exams' patients are stored otherwise, with what to do. Caches made
// before the note was there show by their patients which of the two they hold.
void check_patients(const frames::PatientNames& patients, const cache::CacheReader& cached,
                    const std::filesystem::path& path);

// Records how an exam's sources look when it is extracted, so that a later run can tell whether
// they are the same.

// Name and content of the files, which frames of them and which part of each, and when the input
// says that they were made.
struct ExamStamp {
  std::string files, ranges, times;
};

ExamStamp stamp_of(const frames::ExamSpec& exam);  // DataError when a file cannot be looked at
std::string stamp_of_times(const frames::ExamSpec& exam);
std::string digest_of_names(const frames::ExamSpec& exam);  // of its files
std::string names_part(const ExamStamp& stamp);             // that digest, in `files`

// As the cache stores it (to_text(stamp_of(exam))), and back; three empty texts from what is no
// stamp.
std::string exam_stamp(const frames::ExamSpec& exam);
std::string to_text(const ExamStamp& stamp);
ExamStamp parse_stamp(const std::string& text);

// Finds what is left to do: compares the input with what the cache already holds.

struct Plan {
  // What of the input is to be extracted, also exams whose lost frames are to be tried again.
  frames::ExamList extract;
  std::vector<cache::ExamInfo>
      metadata;  // cached exams whose labels, patients, times or position changed
  std::vector<std::string>
      changes;  // those changes, a line each: "exam 'P3': label 'covid' -> 'regular'"
  std::size_t unchanged = 0;
  std::size_t not_in_input = 0;  // cached exams that the input no longer names; they stay
};

struct PlanOptions {
  frames::FrameSelection selection = {};
  frames::ReaderOptions reader = {};
  // True for the exams of the input that this process has; empty: all. With it the plan is about
  // these alone, and cached exams that the input does not name stay where they are.
  std::vector<bool> mine = {};
};

// `cached` may be null: nothing there yet. A stop request ends the planning early. CacheError: ids
// of the input name other exams than the cached ones (clash_of_ids()).
Plan plan_extraction(frames::ExamList input, const PlanOptions& options,
                     const cache::CacheReader* cached);

// The metadata of one slot that the input states for it.
std::vector<cache::FrameColumn> frame_columns_of(const frames::ExamList& input,
                                                 const frames::ExamSpec& exam,
                                                 const std::vector<std::size_t>& item_of_slot);
// What the input states of the exam as a whole becomes known of it.
void take_stated(const frames::ExamSpec& exam, cache::ExamInfo& info);

}  // namespace coldframe::extract
