// What is left of a job: which exams a cache lacks or has of other sources, and whether it stores
// patients alike.
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

// Checks that a cache and a run store patients in the same way: under two names, one patient could
// be on both sides of a split.

// The recipe's note: "as named", "hashes of salt 3fa91c (NFKC_Casefold)"; "" if the input names no
// patient.
std::string patients_note(const frames::PatientNames& patients);

// CacheError, with the remedy, if the cached exams' patients are stored differently. For caches
// without the note, the patients themselves reveal which of the two they hold.
void check_patients(const frames::PatientNames& patients, const cache::CacheReader& cached,
                    const std::filesystem::path& path);

// Records the state of an exam's sources at extraction, so that a later run can detect changes.

// Names and content of the files, the frames used and their crops, and the times that the input
// states.
struct ExamStamp {
  std::string files, ranges, times;
};

ExamStamp stamp_of(const frames::ExamSpec& exam);  // DataError if a file is inaccessible
std::string stamp_of_times(const frames::ExamSpec& exam);
std::string digest_of_names(const frames::ExamSpec& exam);  // of its files
std::string names_part(const ExamStamp& stamp);             // that digest, in `files`

// As the cache stores it (to_text(stamp_of(exam))), and back; three empty texts if it is no stamp.
std::string exam_stamp(const frames::ExamSpec& exam);
std::string to_text(const ExamStamp& stamp);
ExamStamp parse_stamp(const std::string& text);

// Finds the remaining work: compares the input with the cache.

struct Plan {
  // Exams of the input to extract, including those whose lost frames are to be retried.
  frames::ExamList extract;
  std::vector<cache::ExamInfo>
      metadata;  // cached exams whose labels, patients, times or position changed
  std::vector<std::string>
      changes;  // those changes, one line each: "exam 'P3': label 'covid' -> 'regular'"
  std::size_t unchanged = 0;
  std::size_t not_in_input = 0;  // cached exams no longer in the input; they stay
};

struct PlanOptions {
  frames::FrameSelection selection = {};
  frames::ReaderOptions reader = {};
  std::size_t steps = 1;    // rows of a window: Backbone::clip_steps()
  bool of_volumes = false;  // rows are blocks, or volumes
  // True for the exams of the input that belong to this process; empty: all. If set, the plan
  // covers only these, and cached exams that are not in the input keep their positions.
  std::vector<bool> mine = {};
};

// `cached` may be null: no cache yet. A stop request ends planning early. CacheError: ids in the
// input denote different exams than in the cache (clash_of_ids()).
Plan plan_extraction(frames::ExamList input, const PlanOptions& options,
                     const cache::CacheReader* cached);

// The metadata of slots from the input.
std::vector<cache::FrameColumn> frame_columns_of(const frames::ExamList& input,
                                                 const frames::ExamSpec& exam,
                                                 const std::vector<std::size_t>& item_of_slot);
// Copies the input's exam-level metadata into `info`.
void take_stated(const frames::ExamSpec& exam, cache::ExamInfo& info);

}  // namespace coldframe::extract
