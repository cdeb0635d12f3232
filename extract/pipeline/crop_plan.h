// Decides which rectangle of each frame of an exam is kept, and records it for the cache.
#pragma once

#include <optional>
#include <vector>

#include "cache/format/exam.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {

// The rule is the manifest's for the frame's row, else --crop's. `auto` is the region that the
// frame's own file states. For frames of files that state none it is decided once per exam, by
// preprocess::find_crop over evenly spread ones of all that it has, whichever of them are
// extracted; those of another size than the first of them are decided by themselves.
class CropPlan {
 public:
  // Decodes a few frames when a rule says `auto`. DataError as OpenedExam::read. `exam` and
  // `preprocessing` must outlive this.
  CropPlan(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
           const preprocess::Preprocessing& preprocessing);

  // Empty: all of it.
  std::optional<frames::Rect> crop_of(const frames::ExamSlot& slot) const;

 private:
  const frames::CropRule& rule_of(std::size_t item) const;
  void look(const frames::OpenedExam& opened);

  const frames::ExamSpec& exam_;
  const preprocess::Preprocessing& preprocessing_;
  int width_ = 0, height_ = 0;  // of the frames looked at; 0: all files state their region
  frames::Rect found_;
};

// Adds the exam's column `crop` ("x,y,w,h") when its frames share one rectangle, a column of its
// frames when they do not, and none when nothing was cut away. `of_slot` has one entry per slot,
// empty where nothing was cut or the frame is missing.
void record_crops(const std::vector<std::optional<frames::Rect>>& of_slot, cache::ExamInfo& exam);

// Carries that record over to a description of the same exam that the input alone gave.
void keep_crops(const cache::ExamInfo& cached, cache::ExamInfo& now);

}  // namespace coldframe::extract
