// --input: a folder, a file, a CSV manifest or a split in JSON becomes a list of exams, without
// opening any frame.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extract/frames/frame.h"
#include "extract/frames/frame_order.h"
#include "extract/frames/reader_options.h"

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

  // Of a plan (extract/plan/resume/resume.h).
  std::uint64_t ordinal = 0;   // position in the input
  std::uint32_t revision = 0;  // above every revision that the cache knows of this exam
  std::size_t held = 0;        // frames that the cache has of it
  // For retries of an exam with unreadable frames: the cached presence mask.
  std::vector<std::uint8_t> present = {};
};

// How an input's patients are stored.
struct PatientNames {
  std::optional<bool> hashed = std::nullopt;  // nothing: the input names none
  std::string salt = {};                      // of hashes: tells salts apart, and none of them
  bool numbers_alike = false;                 // 0123 and 123 have one hash (--equal-numbers same)
  std::size_t shown_by_names = 0;  // exams whose id, or a file's name, holds what a hash hides
};

struct ExamList {
  std::vector<ExamSpec> exams;  // in the order of the input
  std::vector<std::string> frame_columns;
  std::string streams = {};           // the one that names streams, where files' channels fill it
  std::vector<std::string> warnings;  // what was passed over, with the reason; may be thousands
  PatientNames patients = {};
};

// The first 20 of the warnings and how many more there are, for people.
std::vector<std::string> shown_warnings(const ExamList& list);

inline constexpr const char* kNoStreams = "none";

struct ExamListOptions {
  std::vector<std::string> frame_columns = {};  // --frame-columns
  bool allow_unordered = false;  // --allow-unordered: times within an exam may decrease
  ReaderOptions reader = {};
  bool sort_by_time = false;  // --sort time: of each exam's frames
  // --columns: what the manifest calls the columns "exam", "path", … (ours first)
  std::vector<std::pair<std::string, std::string>> columns = {};
  std::string exam_from = {};       // --exam-from, as PathPattern has it; "" for none
  std::string streams = {};         // --streams: the frame column that names each frame's stream;
                                    // kNoStreams: frames are chosen without regard to streams
  std::filesystem::path root = {};  // --root: of the paths in a table; "": where the table lies
};

// DataError: no such input, no exams in it, malformed manifest (naming line and column), an exam
// whose columns disagree, times that decrease, stated or in headers. Exams' ids are distinct.
// Whether the manifest's files exist is for OpenedExam to find out, so that one bad exam stops no
// job.
ExamList list_exams(const std::filesystem::path& input, const ExamListOptions& options);

// The kinds of input that hold several exams. A DICOMDIR's are those of the files that it names.
ExamList list_manifest(const std::filesystem::path& manifest, const ExamListOptions& options);
ExamList list_split(const std::filesystem::path& split, const ExamListOptions& options);
ExamList list_folder(const std::filesystem::path& folder, const ExamListOptions& options);
ExamList list_dicomdir(const std::filesystem::path& dicomdir, const ExamListOptions& options);

}  // namespace coldframe::frames
