// Finds what is left to do: compares the input with what the cache already holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/maintain/update_metadata.h"
#include "cache/read/reader.h"
#include "extract/frames/input/exam_list.h"
#include "extract/frames/source.h"

namespace coldframe::extract {

// Features of an exam that another cache has, and that count as if they had been computed again.
struct ReusableExam {
  const cache::CacheReader* cache = nullptr;  // null: there are none
  std::size_t exam = 0;                       // index into its exams()
  std::size_t views = 0;                      // its first ones, `clean` among them
};

// An exam to extract.
struct ExamTask {
  const frames::ExamSpec* exam = nullptr;
  std::uint64_t ordinal = 0;   // position in the input
  std::uint32_t revision = 0;  // above every revision that the cache knows of this exam
  std::size_t held = 0;        // frames that the cache has of it
  // For retries of an exam with unreadable frames: the cached presence mask.
  std::vector<std::uint8_t> present = {};
  ReusableExam reusable = {};
};

struct Plan {
  std::vector<ExamTask> extract;            // also those whose lost frames are to be tried again
  std::vector<cache::RenamedExam> renamed;  // cached exams that keep their features under other ids
  std::vector<std::string> removed;         // ids whose cached features are of other exams now
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
  bool rename = false;   // --rename: sources under other ids than they are cached under keep their
                         // features
  bool replace = false;  // --replace: ids that name other exams than those cached lose theirs
  // True for the exams of the input that this process has; empty: all. With it the plan is about
  // these alone, and cached exams that the input does not name stay where they are.
  std::vector<bool> mine = {};
};

// `cached` may be null: nothing there yet. A stop request ends the planning early. CacheError: ids
// and sources no longer go together (id_changes.h), and the options do not say what is meant.
// Features of augmented views are not kept under another id: their views are drawn by the id.
Plan plan_extraction(const frames::ExamList& input, const PlanOptions& options,
                     const cache::CacheReader* cached);

// The metadata of one slot that the input states for it.
std::vector<cache::FrameColumn> frame_columns_of(const frames::ExamList& input,
                                                 const frames::ExamSpec& exam,
                                                 const std::vector<std::size_t>& item_of_slot);
std::vector<cache::ExamColumn> columns_of(const frames::ExamSpec& exam);

}  // namespace coldframe::extract
