// Chooses the crop rectangle of each frame of an exam and records it for the cache.
#pragma once

#include <optional>
#include <vector>

#include "cache/format/exam.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {

// The rule is that of the frame's manifest row, else --crop. `auto` takes the region that the
// frame's file states. For files without one, preprocess::find_crop determines it once per exam
// from evenly spaced samples of all its frames, independent of the selection; frames that differ in
// size from the first sample get their own.
class CropPlan {
 public:
  // Decodes a few frames if a rule is `auto`. DataError as OpenedExam::read. `exam` and
  // `preprocessing` must outlive this.
  CropPlan(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
           const preprocess::Preprocessing& preprocessing);

  // nullopt: the whole frame.
  std::optional<frames::Rect> crop_of(const frames::ExamSlot& slot) const;

 private:
  const frames::CropRule& rule_of(std::size_t item) const;
  void look(const frames::OpenedExam& opened);

  const frames::ExamSpec& exam_;
  const preprocess::Preprocessing& preprocessing_;
  int width_ = 0, height_ = 0;  // of the sampled frames; 0: all files state their region
  frames::Rect found_;
};

// Adds the exam column `crop` ("x,y,w,h") if all frames share one rectangle, a frame column if they
// differ, and none if no frame was cropped. `of_slot` has one entry per slot, nullopt if the frame
// was not cropped or is missing.
void record_crops(const std::vector<std::optional<frames::Rect>>& of_slot, cache::ExamInfo& exam);

// Copies that record to a description of the same exam built from the input alone.
void keep_crops(const cache::ExamInfo& cached, cache::ExamInfo& now);

}  // namespace coldframe::extract
