// The report of a dry run, as text and as JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/text/text.h"
#include "extract/input/exam_list.h"
#include "extract/inspect/findings.h"

namespace coldframe::extract::dry_run {

struct Report {
  const frames::ExamList& input;
  const Survey& survey;
  std::vector<Finding> findings;
  std::size_t feature_bytes = 2;         // of one number in the cache
  std::size_t views = 1;                 // of each frame there, `clean` included
  std::optional<std::int64_t> cut = {};  // the block whose input is stored as well
  ImageSize image_size = {};
};

// A table of the first exams, the totals, and the findings by kind with a few examples each.
std::string to_text(const Report& report);

// Everything.
Json to_json(const Report& report);

}  // namespace coldframe::extract::dry_run
