#include "extract/preprocess/levels.h"

#include <algorithm>
#include <opencv2/imgproc.hpp>

namespace coldframe::preprocess {

bool LevelRange::add(const frames::Image& image) {
  if (low.empty()) {
    width = image.width;
    height = image.height;
    low.assign(image.rgb.size() / 3, 255);
    high.assign(image.rgb.size() / 3, 0);
  }
  if (image.width != width || image.height != height) return false;
  for (std::size_t i = 0; i < low.size(); ++i) {
    const std::uint8_t* rgb = &image.rgb[i * 3];
    const std::uint8_t level = std::max({rgb[0], rgb[1], rgb[2]});
    low[i] = std::min(low[i], level);
    high[i] = std::max(high[i], level);
  }
  return true;
}

std::size_t number_parts(const cv::Mat1b& mask, cv::Mat1i& parts) {
  // Exams are read side by side already; OpenCV's own threads would need the system to grant them.
  static const bool alone = (cv::setNumThreads(0), true);
  static_cast<void>(alone);
  const int count = cv::connectedComponents(mask, parts, 8, CV_32S);
  std::vector<int> order(static_cast<std::size_t>(count));
  int last = 0;
  for (int& part : parts) {
    int& number = order[static_cast<std::size_t>(part)];
    if (part != 0 && number == 0) number = ++last;
    part = number;
  }
  return static_cast<std::size_t>(last);
}

}  // namespace coldframe::preprocess
