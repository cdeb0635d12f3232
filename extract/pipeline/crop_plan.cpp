#include "extract/pipeline/crop_plan.h"

#include <algorithm>
#include <utility>

#include "extract/decode/exam_spec.h"
#include "extract/input/select_frames.h"
#include "extract/preprocess/auto_crop.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {
namespace {

using frames::CropRule;
using frames::Rect;

constexpr const char* kColumn = "crop";

// Clips a rectangle to the frame: one that a file states may exceed its pixels.
Rect within(const Rect& rect, int width, int height) {
  const auto clamp = [](std::int64_t value, int most) {
    return static_cast<int>(std::clamp<std::int64_t>(value, 0, most));
  };
  const int left = clamp(rect.x, width), top = clamp(rect.y, height);
  const int right = clamp(std::int64_t{rect.x} + rect.width, width);
  const int bottom = clamp(std::int64_t{rect.y} + rect.height, height);
  if (right <= left || bottom <= top) return {0, 0, width, height};
  return {left, top, right - left, bottom - top};
}

Rect stated_crop(const frames::Frame& frame) {
  return within(*frame.region, frame.pixels.width, frame.pixels.height);
}

}  // namespace

CropPlan::CropPlan(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
                   const preprocess::Preprocessing& preprocessing)
    : exam_(exam), preprocessing_(preprocessing) {
  look(opened);
}

const CropRule& CropPlan::rule_of(std::size_t item) const {
  const auto& own = exam_.items[item].crop;
  return own ? *own : preprocessing_.crop;
}

void CropPlan::look(const frames::OpenedExam& opened) {
  std::vector<std::int64_t> candidates, slots;
  for (std::size_t slot = 0; slot < opened.slots().size(); ++slot) {
    const auto& place = opened.slots()[slot];
    if (place.source && rule_of(place.item).kind == CropRule::Kind::kAuto)
      candidates.push_back(static_cast<std::int64_t>(slot));
  }
  if (candidates.empty()) return;
  for (const std::int64_t i : frames::spread_evenly(static_cast<std::int64_t>(candidates.size()),
                                                    preprocess::kCropSamples))
    slots.push_back(candidates[static_cast<std::size_t>(i)]);
  const auto source_of = [&](std::int64_t slot) {
    return opened.slots()[static_cast<std::size_t>(slot)].source;
  };
  const bool one_file = std::all_of(slots.begin(), slots.end(), [&](std::int64_t slot) {
    return source_of(slot) == source_of(slots.front());
  });
  std::vector<frames::Image> images;
  opened.look(slots, [&](frames::ExamSlot&& slot) {
    if (!slot.present) return true;
    if (slot.frame.region) return !one_file;  // which then states it of all its frames
    frames::Image& image = slot.frame.pixels;
    if (preprocessing_.mask) preprocess::apply_mask(*preprocessing_.mask, image);
    if (images.empty() ||
        (image.width == images.front().width && image.height == images.front().height))
      images.push_back(std::move(image));
    return true;
  });
  if (images.empty()) return;
  width_ = images.front().width;
  height_ = images.front().height;
  found_ = preprocess::find_crop(images);
}

std::optional<Rect> CropPlan::crop_of(const frames::ExamSlot& slot) const {
  const CropRule& rule = rule_of(slot.item);
  if (rule.kind == CropRule::Kind::kNone) return std::nullopt;
  const frames::Image& image = slot.frame.pixels;
  if (rule.kind == CropRule::Kind::kFixed) return rule.rect_in(image.width, image.height);
  if (slot.frame.region) return stated_crop(slot.frame);
  if (image.width == width_ && image.height == height_) return found_;
  return preprocess::find_crop(std::span(&image, 1));
}

void record_crops(const std::vector<std::optional<Rect>>& of_slot, cache::ExamInfo& exam) {
  std::vector<std::string> texts, distinct;
  for (std::size_t slot = 0; slot < of_slot.size(); ++slot) {
    texts.push_back(of_slot[slot] ? preprocess::to_text(*of_slot[slot]) : "");
    if (exam.present[slot]) distinct.push_back(texts.back());
  }
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  if (distinct.size() > 1)
    exam.frame_columns.push_back({kColumn, std::move(texts)});
  else if (!distinct.empty() && !distinct.front().empty())
    exam.columns.push_back({kColumn, distinct.front()});
}

void keep_crops(const cache::ExamInfo& cached, cache::ExamInfo& now) {
  for (const auto& column : cached.columns)
    if (column.name == kColumn) now.columns.push_back(column);
  for (const auto& column : cached.frame_columns)
    if (column.name == kColumn) now.frame_columns.push_back(column);
}

}  // namespace coldframe::extract
