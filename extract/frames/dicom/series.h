// Single-frame DICOM files of a folder become exams: a series each, or a study each.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "extract/frames/input/exam_list.h"
#include "extract/frames/reader_options.h"

namespace coldframe::frames::dicom {

// The values that decide over a file's place in its exam.
struct SeriesKeys {
  std::string series_number;
  double time = 0;       // as Moment::seconds
  double position = 0;   // millimetres along the slices' normal, NaN if unknown
  double instance = 0;   // InstanceNumber, NaN if unknown
  bool dated = true;     // as Moment::dated
  bool acquired = true;  // as Moment::acquired
  std::string uid = {};  // SOPInstanceUID

  // True if both are of one image: the same UID, and nothing that tells them apart (software that
  // removes identities may leave all files the same one).
  bool is_copy_of(const SeriesKeys& other) const;
};

// Sorts an exam's items and sets their times. Files that each have a position of their own are
// slices of a volume: in the order of position, without times. Else files are in the order of
// acquisition time where they have one that rises, then of position and instance number, then as
// they came; their times are seconds since the first, NaN when one is unknown or none rises. Times
// of day without a date serve as well, and may run past midnight once. Those of content, series or
// study serve only where positions do not differ: they tell when slices were computed.
// `one_series` is false for a study, whose series overlap and may be of several days: it is no
// volume, and needs dates.
void order_series(std::vector<ExamItem>& items, std::vector<SeriesKeys> keys, bool one_series);

class SeriesList {
 public:
  explicit SeriesList(DicomGrouping grouping) : grouping_(grouping) {}

  enum class Verdict { kTaken, kClip, kNoImage };
  // Reads the file's header. kClip: it has several frames, or no series, and is an exam of its own.
  // kNoImage: `reason` says what it is instead, or of which file it is a copy. DataError when it is
  // damaged.
  Verdict add(const ExamItem& item, std::string& reason);

  // Named FOLDER/series-NUMBER (or FOLDER/study-1, -2, …) after the first file's folder, with -2,
  // -3 … behind where the number repeats. Leaves the list empty.
  std::vector<ExamSpec> take_exams();

 private:
  struct Series {
    std::vector<ExamItem> items;
    std::vector<SeriesKeys> keys;
    std::multimap<std::string, std::size_t> of_uid;  // SOPInstanceUID -> place in both
  };

  std::string name(const Series& series);

  DicomGrouping grouping_;
  std::map<std::string, std::size_t> index_;  // UID -> place in series_
  std::vector<Series> series_;                // in the order of their first files
  std::map<std::string, int> uses_;           // of names
};

}  // namespace coldframe::frames::dicom
