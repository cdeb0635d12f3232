// The place of a feature: its exam, frame and view.
#pragma once

#include <cstddef>

namespace coldframe::extract {

struct FramePlace {
  std::size_t task = 0;   // index into the tasks
  std::size_t slot = 0;   // of the frame within its exam
  std::size_t tiles = 1;  // of that frame; their features are averaged
  std::size_t view = 0;   // 0: clean, 1 … K: augmented
};

}  // namespace coldframe::extract
