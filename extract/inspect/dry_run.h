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

// What a backbone makes of a frame; where none is named yet, a ViT-S/16 is assumed.
struct FrameSizes {
  std::size_t features = 384;             // numbers
  std::size_t tokens = 197, width = 384;  // entering a block of it
  bool assumed = true;
};

struct Report {
  const frames::ExamList& input;
  const Survey& survey;
  std::vector<Finding> findings;
  std::size_t feature_bytes = 2;         // of one number in the cache
  std::size_t views = 1;                 // of each frame there, `clean` included
  std::optional<std::int64_t> cut = {};  // the block whose input is stored as well
  ImageSize image_size = {};
  FrameSizes sizes = {};
  std::int64_t clip_frames = 1;  // of a window
  preprocess::VolumeRule volume = {};
};

// A table of the first exams, the totals, and the findings by kind with a few examples each.
std::string to_text(const Report& report);

// Everything.
Json to_json(const Report& report);

}  // namespace coldframe::extract::dry_run
