// An exam that is to be read: its files and what the input states of them.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extract/decode/frame.h"

namespace coldframe::frames {

// One row of the manifest, or one file of a folder: a file, or some frames of it.
struct ExamItem {
  std::filesystem::path path;  // empty: a missing frame, which keeps its slot
  std::string name;            // the path as the input names it, as utf8_name() has it: what is
                               // stored and shown
  std::int64_t first = 0,
               last = -1;  // frames of the file, inclusive; last = -1: all that there are
  double time_s = std::numeric_limits<double>::quiet_NaN();  // of the item's first frame, as the
                                                             // input states it: seconds since the
                                                             // exam's first item
  std::vector<std::string> frame_columns;       // values, in the order of ExamList::frame_columns
  std::optional<CropRule> crop = std::nullopt;  // the column `crop`; absent: as --crop says
  std::string stream = {};                      // of --streams' column
};

// What is to be done: an exam of the input, and where a plan says so, what a cache has of it.
struct ExamSpec {
  std::string id;
  bool id_from_header = false;  // the files themselves state it, wherever they lie
  std::string patient;          // empty: unknown
  double start_time =
      std::numeric_limits<double>::quiet_NaN();  // Unix seconds, when times are absolute
  double elapsed_start =
      std::numeric_limits<double>::quiet_NaN();  // of the first frame, when the input states times
                                                 // in seconds: since its own zero, which all exams
                                                 // share (an injection, an admission)
  OrderBasis basis = {};            // of several files; of one file's frames its reader knows
  bool times_from_headers = false;  // no item has a time, but the files' headers may state some
  std::vector<ExamItem> items;
  std::vector<std::pair<std::string, std::string>> columns;  // carried to the cache

  // Of a plan (extract/pipeline/resume.h).
  std::uint64_t ordinal = 0;   // position in the input
  std::uint32_t revision = 0;  // above every revision that the cache knows of this exam
  std::size_t held = 0;        // frames that the cache has of it
  // For retries of an exam with unreadable frames: the cached presence mask.
  std::vector<std::uint8_t> present = {};
};

}  // namespace coldframe::frames
