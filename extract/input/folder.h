// Names the exams of files for a manifest that leaves it to them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "extract/decode/source.h"
#include "extract/input/exam_list.h"

namespace coldframe::frames {

struct FilePlace {
  std::string exam;          // empty: nothing names it, or it is passed over with a warning
  bool passed_over = false;  // it holds no image, or is a copy
  bool from_header = false;  // as ExamSpec::id_from_header
};

struct NamedExams {
  std::map<std::string, FilePlace> places;  // by ExamItem::name
  std::map<std::string, ExamSpec> exams;    // that headers name, by id, their items in order
};

// True for a file of a kind whose headers name exams; of one that cannot be read nothing is known.
bool has_series(const ExamItem& file);

// The exam of each file: what a folder of these files would give. Only DICOM files name their
// exams; a damaged one among them is an exam of its own, as is one that is not there, both after
// their paths. What is passed over is told in `warnings`.
NamedExams name_exams(const std::vector<ExamItem>& files, DicomGrouping grouping,
                      std::vector<std::string>& warnings);

}  // namespace coldframe::frames
