// DICOM files of a folder become exams: by series or study, ordered by what their headers state.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "extract/decode/dicom/data_set.h"
#include "extract/decode/dicom/times.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/frame.h"
#include "extract/decode/source.h"
#include "extract/decode/source_file.h"

namespace coldframe::frames::dicom {

// A multi-frame object split into several files by its writer (PS3.3 C.7.6.16.2.2.4, a
// concatenation) becomes one exam.

struct ConcatenationPart {
  std::string whole;                   // the UID of the undivided object
  std::int64_t number = 0, of = 0;     // in the concatenation, from 1; 0: not stated
  std::optional<std::int64_t> offset;  // frames before it in the whole
  std::vector<double> steps;           // as cine_steps()
  std::vector<GroupFacts> facts;       // of its frames, in the order in which its reader has them
  std::int64_t frames = 1;
};

// nullopt for a file that is no part, or the only one. DataError for a file without frames.
std::optional<ConcatenationPart> read_part(const DataSet& data);

// "2 of 3 parts of its concatenation are there"; "" if none is missing.
std::string missing_parts(const std::vector<ConcatenationPart>& parts);

// Sorts the files of a concatenation, splits them where frames of several files interleave, and
// sets their times.
OrderBasis join_parts(std::vector<ExamItem>& items, std::vector<ConcatenationPart>& parts);

// Groups the DICOM files of a folder into exams: each multi-frame file (with its other parts if it
// was split), and the single-frame files of each series (or study).

// The values that determine a file's position in its exam, and the exam's name.
struct SeriesKeys {
  std::string series_number;
  double time = 0;                          // as ImageTime::seconds
  double position = 0;                      // millimetres along the slices' normal, NaN if unknown
  double instance = 0;                      // InstanceNumber, NaN if unknown
  bool dated = true;                        // as ImageTime::dated
  bool acquired = true;                     // as ImageTime::acquired
  std::string uid = {};                     // SOPInstanceUID
  std::string modality = {}, patient = {};  // the latter as PatientID has it, for comparison only
  double temporal_position = kNotStated, trigger = kNotStated;  // as FrameFacts has them
  double made = kNotStated;  // seconds of ContentTime, with a date where `made_dated`
  bool made_dated = true;

  // True if both are the same image: the same UID and no difference in other keys
  // (de-identification software may give all files one UID).
  bool is_copy_of(const SeriesKeys& other) const;
};

// Sorts an exam's items and sets their times by order_frames() on their keys, then by UID, else
// keeps their order. Times of day without a date are accepted and may pass midnight once. Content,
// series and study times are used only if positions do not differ, because they tell when slices
// were computed. `one_series` is false for a study, whose series overlap and may span several days:
// it is no volume and requires dates.
OrderBasis order_series(std::vector<ExamItem>& items, std::vector<SeriesKeys> keys,
                        bool one_series);

class SeriesList {
 public:
  explicit SeriesList(DicomGrouping grouping) : grouping_(grouping) {}

  enum class Verdict { kTaken, kNoName, kNoImage };
  // Reads the file's header. kNoName: no UID names its exam, or it is damaged; it is its own exam,
  // named by the caller. kNoImage: `reason` states what it is instead, or of which file it is a
  // duplicate.
  Verdict add(const ExamItem& item, const SourceFile& file, std::string& reason);

  // The exams so far, in the order of their first files, named by exam_id() after their
  // SOPInstance- or SeriesInstanceUID, or by study_id(). Leaves the list empty.
  struct Exams {
    std::vector<ExamSpec> exams;
    std::vector<ExamItem> unnamed;      // different clips with one UID, which therefore names none
    std::vector<std::string> warnings;  // skipped series, missing parts
  };
  Exams take_exams();

 private:
  enum class Kind { kImages, kClip, kParts };
  struct Series {
    std::string uid;  // of the exam
    Kind kind = Kind::kImages;
    bool is_map = false;  // parametric map: no exam if there are images
    std::vector<ExamItem> items;
    std::vector<SeriesKeys> keys;
    std::vector<ConcatenationPart> parts;  // of kParts, as items
    // SOPInstanceUID -> place in both; of clips, once there are two, their content -> place.
    std::multimap<std::string, std::size_t> places;
  };

  Verdict take(const ExamItem& item, const SourceFile& file, std::string& reason);
  Verdict add_clip(Series& clip, const ExamItem& item, SeriesKeys keys, std::string& reason);
  OrderBasis order(Series& series, const std::string& exam, std::vector<std::string>& warnings);
  Verdict add_image(Series& series, const ExamItem& item, SeriesKeys keys, std::string& reason);
  std::string name(const Series& series, std::size_t digits) const;

  DicomGrouping grouping_;
  std::map<std::pair<Kind, std::string>, std::size_t> index_;  // UID -> place in series_
  std::vector<Series> series_;                                 // in the order of their first files
};

}  // namespace coldframe::frames::dicom
