// OpenCV as we want it: silent and single-threaded.
#pragma once

#include <opencv2/core.hpp>

#include "extract/frames/frame.h"

namespace coldframe::frames {

// Once per process, whoever comes first. Our decoders run side by side, so OpenCV itself need not
// start threads; what goes wrong is reported by us, with the file's name.
void configure_opencv();

Image to_rgb_image(const cv::Mat& bgr);  // 8 bits, 3 channels

}  // namespace coldframe::frames
