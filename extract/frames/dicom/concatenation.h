// A multi-frame object that its writer divided into several files (PS3.3 C.7.6.16.2.2.4, a
// concatenation) becomes one exam.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "extract/frames/dicom/data_set.h"
#include "extract/frames/dicom/times.h"
#include "extract/frames/frame_order.h"
#include "extract/frames/input/exam_list.h"

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

}  // namespace coldframe::frames::dicom
