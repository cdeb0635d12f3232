// Finds what is left to do: compares the input with what the cache already holds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "cache/store/reader.h"
#include "extract/frames/input/exam_list.h"
#include "extract/frames/source.h"

namespace coldframe::extract {

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
