// Turns --input (a folder, a file, a CSV manifest or a JSON split) into a list of exams, without
// decoding frames.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "extract/decode/exam_spec.h"
#include "extract/decode/frame.h"
#include "extract/decode/source.h"

namespace coldframe::frames {

// How an input's patients are stored.
struct PatientNames {
  std::optional<bool> hashed = std::nullopt;  // nullopt: the input names no patients
  std::string salt = {};                      // identifies the hashes' salt without revealing it
  bool numbers_alike = false;      // 0123 and 123 have the same hash (--equal-numbers same)
  std::size_t shown_by_names = 0;  // exams whose id or a file name contains what a hash hides
};

struct ExamList {
  std::vector<ExamSpec> exams;  // in the order of the input
  std::vector<std::string> frame_columns;
  std::string streams = {};           // the frame column of streams, if file channels fill it
  std::vector<std::string> warnings;  // what was skipped and why; may be thousands
  PatientNames patients = {};
};

// The first 20 warnings and the number of others, for display.
std::vector<std::string> shown_warnings(const ExamList& list);

inline constexpr const char* kNoStreams = "none";

struct ExamListOptions {
  std::vector<std::string> frame_columns = {};  // --frame-columns
  bool allow_unordered = false;  // --allow-unordered: times within an exam may decrease
  ReaderOptions reader = {};
  bool sort_by_time = false;  // --sort time: of each exam's frames
  // --columns: (our name, manifest's name) of the columns "exam", "path", …
  std::vector<std::pair<std::string, std::string>> columns = {};
  std::string exam_from = {};       // --exam-from, as PathPattern has it; "" for none
  std::string streams = {};         // --streams: the frame column that names each frame's stream;
                                    // kNoStreams: frames are selected regardless of streams
  std::filesystem::path root = {};  // --root: base of the paths in a table; "": the table's folder
};

// DataError: no such input, no exams in it, malformed manifest (naming line and column), an exam
// with contradictory columns, decreasing times (in the input or in headers). Exam ids are distinct.
// OpenedExam, not this, checks that the manifest's files exist, so that one bad exam does not stop
// a job.
ExamList list_exams(const std::filesystem::path& input, const ExamListOptions& options);

// The kinds of input with several exams. A DICOMDIR's exams are those of the files that it names.
ExamList list_manifest(const std::filesystem::path& manifest, const ExamListOptions& options);
ExamList list_split(const std::filesystem::path& split, const ExamListOptions& options);
ExamList list_folder(const std::filesystem::path& folder, const ExamListOptions& options);
ExamList list_dicomdir(const std::filesystem::path& dicomdir, const ExamListOptions& options);

// Properties of a file by its name.

// By suffix; such a file should be readable.
bool is_named_as_image(const std::filesystem::path& path);
bool is_named_as_clip(const std::filesystem::path& path);
// A manifest: CSV, or a format that users mistake for it.
bool is_named_as_table(const std::filesystem::path& path);
bool is_named_as_split(const std::filesystem::path& path);  // JSON

bool is_pattern(const std::string& name);    // with *, ? or [
std::string with_slashes(std::string name);  // for Windows' backslashes

// Suffix "; …" for the error of a missing file, if its path explains it; else "".
std::string why_missing(const std::filesystem::path& path);

// The file's name without the suffix of a supported kind: "scan.nii.gz" -> "scan", "lung.2.gif"
// -> "lung.2"; "1.2.840.113619.2.1" stays.
std::string name_of_exam(const std::filesystem::path& file);

// Makes each channel of multi-channel files a stream.

class ChannelStreams {
 public:
  explicit ChannelStreams(const ExamListOptions& options) : options_(options) {}

  // Gives each frame of such files its own item. `frames`: SourceFacts::frames of the exam's first
  // file, not empty.
  void part(ExamSpec& exam, std::vector<ChannelFrame> frames);
  // Writes the streams to a frame column and reports it. DataError: an item already names a stream,
  // or an exam has a column of that name.
  void finish(ExamList& list) const;

 private:
  const ExamListOptions& options_;
  std::size_t files_ = 0;  // that were split
  std::string first_;      // description of the first of them
};

// The frame column that streams of channels are written to.
std::string channel_column(const ExamListOptions& options);

// Orders an exam's files by header times if the manifest states none.

// Checks the order of an exam whose times come from headers (ExamSpec::times_from_headers). Leaves
// the exam unchanged if its order is right, or if a file states no time or is unreadable. If
// acquisition times distinguish no two files, but order_frames() orders them by other times, uses
// those. If times decrease: `sort_by_time` sorts the items by time, `allow_unordered` stores the
// decreasing times in the items, otherwise DataError.
void settle_header_times(ExamSpec& exam, const ExamListOptions& options);

// Text form of --crop and of the manifest's column `crop`.

inline constexpr const char* kCropHelp =
    "x,y,w,h in pixels or fractions of the frame (50%, 100%-50), 'auto' or 'none'";

// "10,0,320,240", "50%,0,50%,100%-50" (the right half without the lowest 50 pixels), "auto" or
// "none". nullopt for any other text, a percentage above 100 %, a negative corner or an empty
// rectangle.
std::optional<CropRule> parse_crop(std::string_view text);

}  // namespace coldframe::frames
