#include "extract/frames/opencv_settings.h"

#include <mutex>
#include <opencv2/core/utils/logger.hpp>
#include <opencv2/imgproc.hpp>

namespace coldframe::frames {

void configure_opencv() {
  static std::once_flag once;
  std::call_once(once, [] {
    cv::utils::logging::setLogLevel(cv::utils::logging::LOG_LEVEL_SILENT);
    cv::setNumThreads(1);
    // OpenCV prints every exception that it throws unless somebody else takes it.
    cv::redirectError([](int, const char*, const char*, const char*, int, void*) { return 0; });
  });
}

Image to_rgb_image(const cv::Mat& bgr) {
  Image image{bgr.cols, bgr.rows, std::vector<std::uint8_t>(bgr.total() * 3)};
  cv::Mat rgb(bgr.rows, bgr.cols, CV_8UC3, image.rgb.data());
  cv::cvtColor(bgr, rgb, cv::COLOR_BGR2RGB);
  return image;
}

}  // namespace coldframe::frames
