// An exam to read: its files and their metadata from the input.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extract/decode/frame.h"

namespace coldframe::frames {

// One row of the manifest, or one file of a folder: a file, or some frames of it.
struct ExamItem {
  std::filesystem::path path;  // empty: a missing frame, which keeps its position
  std::string name;  // path as given in the input, through utf8_name(); stored and displayed
  std::int64_t first = 0,
               last = -1;  // frames of the file, inclusive; last = -1: to the end
  // Time of the item's first frame from the input: seconds since the exam's first item.
  double time_s = kNotStated;
  std::vector<std::string> frame_columns;       // values, ordered as ExamList::frame_columns
  std::optional<CropRule> crop = std::nullopt;  // from the column `crop`; absent: --crop applies
  std::string stream = {};                      // from the column that --streams names
};

// A unit of work: an exam of the input and, if a plan sets it, what a cache already holds of it.
struct ExamSpec {
  std::string id;
  bool id_from_header = false;     // the files' headers state it, independent of their paths
  std::string patient;             // empty: unknown
  double start_time = kNotStated;  // Unix seconds, when times are absolute
  // Time of the first frame if the input gives seconds: since a zero common to all exams (an
  // injection, an admission).
  double elapsed_start = kNotStated;
  OrderBasis basis = {};            // for several files; for the frames of one file, ask its reader
  bool times_from_headers = false;  // no item has a time, but file headers may
  std::vector<ExamItem> items;
  std::vector<std::pair<std::string, std::string>> columns;  // carried to the cache

  // Set by a plan (extract/pipeline/resume.h).
  std::uint64_t ordinal = 0;   // position in the input
  std::uint32_t revision = 0;  // greater than every revision of this exam in the cache
  std::size_t held = 0;        // number of its frames in the cache
  // For retries of an exam with unreadable frames: the cached presence mask.
  std::vector<std::uint8_t> present = {};
};

}  // namespace coldframe::frames
