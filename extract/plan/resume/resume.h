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

// An exam to extract.
struct ExamTask {
  const frames::ExamSpec* exam = nullptr;
  std::uint64_t ordinal = 0;   // position in the input
  std::uint32_t revision = 0;  // above every revision that the cache knows of this exam
  std::size_t held = 0;        // frames that the cache has of it
  // For retries of an exam with unreadable frames: the cached presence mask.
  std::vector<std::uint8_t> present = {};
};

struct Plan {
  std::vector<ExamTask> extract;  // also those whose lost frames are to be tried again
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
Plan plan_extraction(const frames::ExamList& input, const PlanOptions& options,
                     const cache::CacheReader* cached);

// The metadata of one slot that the input states for it.
std::vector<cache::FrameColumn> frame_columns_of(const frames::ExamList& input,
                                                 const frames::ExamSpec& exam,
                                                 const std::vector<std::size_t>& item_of_slot);
// What the input states of the exam as a whole becomes known of it.
void take_stated(const ExamTask& task, cache::ExamInfo& info);

}  // namespace coldframe::extract
