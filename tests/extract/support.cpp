#include "tests/extract/support.h"

#include <c10/util/Exception.h>

#include <fstream>
#include <opencv2/imgcodecs.hpp>

namespace coldframe::extract {

void write_grey_image(const std::filesystem::path& path, int level, int size) {
  std::filesystem::create_directories(path.parent_path());
  cv::imwrite(path, cv::Mat(size, size, CV_8UC1, cv::Scalar(level)));
}

void write_text(const std::filesystem::path& path, const std::string& text) {
  std::ofstream(path) << text;
}

torch::Tensor MeanBackbone::forward(const torch::Tensor& images) {
  if (before) before();
  if (images.size(0) > fits_)
    throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "pretended");
  batches.push_back(images.size(0));
  const auto red = images.select(1, 0).mean({1, 2});
  return torch::stack({red, torch::ones_like(red)}, 1);
}

ExtractOptions small_options(std::int64_t batch) {
  ExtractOptions options;
  options.preprocessing.image_size = 16;
  options.preprocessing.mean = {0, 0, 0};
  options.preprocessing.std = {1, 1, 1};
  options.batch.batch = batch;
  options.decode_threads = 2;
  return options;
}

}  // namespace coldframe::extract
