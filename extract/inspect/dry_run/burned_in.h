// Burned-in text, scales and traces: fine bright strokes that stand still while the image moves.
// They can predict a label (a hospital's logo, a device's screen), so a person should know of them.
#pragma once

#include <cstddef>
#include <vector>

#include "extract/frames/frame.h"
#include "extract/preprocess/levels.h"

namespace coldframe::extract::dry_run {

// Frames of one size, in any order.
class StillParts {
 public:
  void add(const frames::Image& image);  // ignores images of another size than the first

  std::size_t frames() const { return frames_; }

  // Boxes around strokes that are the same in all frames and lie in the outer quarter of the frame
  // on any side, the largest first. Empty for fewer than two frames, and when less than 2 % of the
  // pixels change, so that nothing tells text from image.
  std::vector<frames::Rect> bright_regions() const;

 private:
  bool is_line(int x, int y, int dx, int dy) const;

  std::size_t frames_ = 0;
  preprocess::LevelRange levels_;
};

}  // namespace coldframe::extract::dry_run
