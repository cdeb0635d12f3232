// A multi-frame object that its writer divided into several files (PS3.3 C.7.6.16.2.2.4, a
// concatenation) becomes one exam.
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

struct Part {
  std::string whole;                   // the UID that the object would have in one file
  std::int64_t number = 0, of = 0;     // in the concatenation, from 1; 0: not stated
  std::optional<std::int64_t> offset;  // frames before it in the whole
  std::vector<double> steps;           // as cine_steps()
  std::vector<GroupFacts> facts;       // of its frames, in the order in which its reader has them
  std::int64_t frames = 1;
};

// Nothing for a file that is no part, or the only one. DataError for a file without frames.
std::optional<Part> read_part(const DataSet& data);

// "2 of 3 parts of its concatenation are there"; "" where none is missing.
std::string missing_parts(const std::vector<Part>& parts);

// Sorts the files of a concatenation, divides them where frames of several files alternate, and
// sets their times.
OrderBasis join_parts(std::vector<ExamItem>& items, std::vector<Part>& parts);

// DICOM files of a folder become exams: a multi-frame file each, with the other parts where its
// writer divided it, and the single-frame files of a series (or study) together.

// The values that decide over a file's place in its exam, and over the exam's name.
struct SeriesKeys {
  std::string series_number;
  double time = 0;                          // as Moment::seconds
  double position = 0;                      // millimetres along the slices' normal, NaN if unknown
  double instance = 0;                      // InstanceNumber, NaN if unknown
  bool dated = true;                        // as Moment::dated
  bool acquired = true;                     // as Moment::acquired
  std::string uid = {};                     // SOPInstanceUID
  std::string modality = {}, patient = {};  // the latter as PatientID has it, for comparison only
  double temporal_position = kNotStated, trigger = kNotStated;  // as FrameFacts has them
  double made = kNotStated;  // seconds of ContentTime, with a date where `made_dated`
  bool made_dated = true;

  // True if both are of one image: the same UID, and nothing that tells them apart (software that
  // removes identities may leave all files the same one).
  bool is_copy_of(const SeriesKeys& other) const;
};

// Sorts an exam's items and sets their times, as order_frames() does by their keys; then by UID,
// and without any of these as they came. Times of day without a date serve as well, and may run
// past midnight once. Those of content, series or study serve only where positions do not differ:
// they tell when slices were computed. `one_series` is false for a study, whose series overlap and
// may be of several days: it is no volume, and needs dates.
OrderBasis order_series(std::vector<ExamItem>& items, std::vector<SeriesKeys> keys,
                        bool one_series);

class SeriesList {
 public:
  explicit SeriesList(DicomGrouping grouping) : grouping_(grouping) {}

  enum class Verdict { kTaken, kNoName, kNoImage };
  // Reads the file's header. kNoName: no UID names its exam, or it is damaged; it is an exam of its
  // own, and the caller names it. kNoImage: `reason` says what it is instead, or of which file it
  // is a copy.
  Verdict add(const ExamItem& item, const SourceFile& file, std::string& reason);

  // The exams so far, in the order of their first files, named by exam_id() after their
  // SOPInstance- or SeriesInstanceUID, or by study_id(). Leaves the list empty.
  struct Exams {
    std::vector<ExamSpec> exams;
    std::vector<ExamItem> unnamed;      // different clips with one UID, which therefore names none
    std::vector<std::string> warnings;  // series that are passed over, parts that are not there
  };
  Exams take_exams();

 private:
  enum class Kind { kImages, kClip, kParts };
  struct Series {
    std::string uid;  // of the exam
    Kind kind = Kind::kImages;
    bool is_map = false;  // of parameters, which beside images is no exam
    std::vector<ExamItem> items;
    std::vector<SeriesKeys> keys;
    std::vector<Part> parts;  // of kParts, as items
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
