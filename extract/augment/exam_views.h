// The augmented views of one exam: the same transform for all of its frames.
#pragma once

#include <optional>
#include <vector>

#include "extract/augment/transform.h"

namespace coldframe::augment {

// Frames of one exam, in turn. Views are numbered 1 … count(); 0 is `clean`.
class ExamViews {
 public:
  ExamViews(const Augmentation& augmentation, const std::string& exam);

  std::size_t count() const { return views_.size(); }

  // Before tiling and resizing. The first frame's mean grey is what contrast turns about, in all
  // frames, so that what changes from frame to frame still does.
  frames::Image warp(std::size_t view, const frames::Image& image);

  // After it: `rgb` is what the backbone will see. Noise is the same in all frames and tiles, so
  // that a still picture stays still.
  void finish(std::size_t view, std::span<std::uint8_t> rgb);

 private:
  struct View {
    Transform transform;
    std::optional<std::array<float, 256>> curve;
    std::vector<float> noise;
  };
  std::vector<View> views_;
  std::optional<int> grey_;
};

}  // namespace coldframe::augment
