// Exams of a folder, and the exam that each of a list of files belongs to.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "extract/decode/source.h"
#include "extract/input/exam_list.h"

namespace coldframe::frames {

// Derives exam ids from files, for manifests without an exam column.

struct FilePlace {
  std::string exam;          // empty: nothing names it, or it is skipped with a warning
  bool passed_over = false;  // it contains no image or is a duplicate
  bool from_header = false;  // as ExamSpec::id_from_header
};

struct NamedExams {
  std::map<std::string, FilePlace> places;  // by ExamItem::name
  std::map<std::string, ExamSpec> exams;    // exams named by headers, by id, their items in order
};

// True if the headers of the file's format name exams; false if it cannot be read.
bool has_series(const ExamItem& file);

// The exam of each file, as for a folder of these files. Only DICOM files name their exams; a
// damaged or missing one is its own exam, named by its path. Reports skipped files in `warnings`.
NamedExams name_exams(const std::vector<ExamItem>& files, DicomGrouping grouping,
                      std::vector<std::string>& warnings);

}  // namespace coldframe::frames
