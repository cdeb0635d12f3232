#include "tests/extract/support.h"

#include <c10/util/Exception.h>

#include <fstream>
#include <opencv2/imgcodecs.hpp>

namespace coldframe::extract {

void write_grey_image(const std::filesystem::path& path, int level, int size) {
  std::filesystem::create_directories(path.parent_path());
  cv::imwrite(path, cv::Mat(size, size, CV_8UC1, cv::Scalar(level)));
}

namespace {

std::string little(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> 8 * i & 0xFF);
  return text;
}

// Explicit little endian (PS3.5 section 7.1.2); padded to an even length.
std::string element(unsigned group, unsigned number, const std::string& vr, std::string value) {
  if (value.size() % 2 != 0) value += vr == "UI" ? '\0' : ' ';
  const std::string length =
      vr == "OB" ? little(0, 2) + little(value.size(), 4) : little(value.size(), 2);
  return little(group, 2) + little(number, 2) + vr + length + value;
}

}  // namespace

void write_dicom_file(const std::filesystem::path& path, const DicomFile& file) {
  constexpr int kSide = 16;
  const auto whole = [](unsigned number, int value) {
    return element(0x28, number, "US", little(static_cast<std::uint64_t>(value), 2));
  };
  std::string pixels;
  for (const int level : file.levels)
    pixels += std::string(std::size_t{kSide} * kSide, static_cast<char>(level));
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary)
      << std::string(128, '\0') << "DICM" << element(2, 0x10, "UI", "1.2.840.10008.1.2.1")
      << element(8, 0x18, "UI", file.sop_uid) << element(8, 0x60, "CS", "US")
      << element(0x10, 0x20, "LO", file.patient) << element(0x20, 0xE, "UI", file.series_uid)
      << element(0x20, 0x11, "IS", std::to_string(file.series_number))
      << element(0x20, 0x13, "IS", std::to_string(file.instance)) << whole(2, 1)
      << element(0x28, 4, "CS", "MONOCHROME2")
      << element(0x28, 8, "IS", std::to_string(file.levels.size())) << whole(0x10, kSide)
      << whole(0x11, kSide) << whole(0x100, 8) << whole(0x101, 8) << whole(0x102, 7)
      << whole(0x103, 0) << element(0x7FE0, 0x10, "OB", pixels);
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
