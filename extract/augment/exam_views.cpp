#include "extract/augment/exam_views.h"

namespace coldframe::augment {
namespace {

bool changes_levels(const Transform& transform) {
  return transform.brightness != 1 || transform.contrast != 1 || transform.gamma != 1 ||
         transform.noise > 0;
}

}  // namespace

ExamViews::ExamViews(const Augmentation& augmentation, const std::string& exam) {
  for (std::size_t view = 1; view <= augmentation.views; ++view)
    views_.push_back({draw_transform(augmentation, exam, view), std::nullopt, {}});
}

frames::Image ExamViews::warp(std::size_t view, const frames::Image& image) {
  if (!grey_) grey_ = mean_grey(image);
  return augment::warp(views_.at(view - 1).transform, image);
}

void ExamViews::finish(std::size_t view, std::span<std::uint8_t> rgb) {
  View& chosen = views_.at(view - 1);
  if (!changes_levels(chosen.transform)) return;
  if (!chosen.curve) chosen.curve = tone_curve(chosen.transform, grey_.value_or(0));
  if (chosen.transform.noise > 0 && chosen.noise.empty())
    chosen.noise = make_noise(chosen.transform, rgb.size() / 3);
  apply_tone(*chosen.curve, chosen.noise, rgb);
}

}  // namespace coldframe::augment
