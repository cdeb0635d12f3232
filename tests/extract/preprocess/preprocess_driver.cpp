// Runs the pixel pipeline on raw pixels, for the cross-checks against torchvision and timm, and
// times it:
//   preprocess_driver WIDTH HEIGHT S RESIZE CROP_PCT INTERPOLATION RESAMPLER MEAN*3 STD*3 [REPEATS]
// reads WIDTH × HEIGHT × 3 bytes from stdin and writes the resized S × S × 3 bytes and then the
// normalised 3 × S × S floats to stdout. With REPEATS it prints frames per second of processor time
// instead.
//   preprocess_driver rescale WIDTH HEIGHT ROW_MM COLUMN_MM WANTED_MM INTERPOLATION RESAMPLER
// writes "WIDTH HEIGHT\n" and the pixels of the frame at that spacing.
#include <ctime>
#include <iostream>
#include <string>
#include <vector>

#include "common/cli/cli.h"
#include "extract/preprocess/preprocessing.h"

namespace {

using namespace coldframe;

preprocess::Preprocessing parse(char** argv) {
  preprocess::Preprocessing result;
  const std::string size = argv[3];
  const std::size_t cross = std::min(size.find('x'), size.size());
  result.image_size = std::stoi(size);
  if (cross < size.size()) result.image_size.width = std::stoi(size.substr(cross + 1));
  result.resize = choice("resize", argv[4], preprocess::kResizes);
  result.crop_pct = std::stod(argv[5]);
  result.interpolation = choice("interpolation", argv[6], preprocess::kInterpolations);
  result.resampler = choice("resampler", argv[7], preprocess::kResamplers);
  for (std::size_t i = 0; i < 3; ++i) {
    result.mean[i] = std::stof(argv[8 + i]);
    result.std[i] = std::stof(argv[11 + i]);
  }
  return result;
}

void measure(const preprocess::Preprocessing& preprocessing, const frames::Image& image,
             int repeats, std::uint8_t* resized) {
  const std::clock_t start = std::clock();
  for (int i = 0; i < repeats; ++i) preprocess::resize_frame(preprocessing, image, resized);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  std::cout << repeats / seconds << "\n";
}

int rescale(char** argv) {
  preprocess::Preprocessing steps;
  steps.spacing_mm = std::stod(argv[6]);
  steps.interpolation = choice("interpolation", argv[7], preprocess::kInterpolations);
  steps.resampler = choice("resampler", argv[8], preprocess::kResamplers);
  frames::Frame frame;
  frame.pixels = {std::stoi(argv[2]), std::stoi(argv[3]), {}};
  frame.pixels.rgb.assign(std::istreambuf_iterator<char>(std::cin), {});
  frame.spacing_mm = {std::stod(argv[4]), std::stod(argv[5])};
  const frames::Image result = preprocess::rescale_frame(steps, frame);
  std::cout << result.width << ' ' << result.height << '\n';
  std::cout.write(reinterpret_cast<const char*>(result.rgb.data()),
                  static_cast<std::streamsize>(result.rgb.size()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 9 && std::string(argv[1]) == "rescale") return rescale(argv);
  if (argc < 14) return 2;
  const auto preprocessing = parse(argv);
  frames::Image image{std::stoi(argv[1]), std::stoi(argv[2]), {}};
  image.rgb.assign(std::istreambuf_iterator<char>(std::cin), {});
  const std::size_t values = static_cast<std::size_t>(3 * preprocessing.image_size.pixels());
  std::vector<std::uint8_t> resized(values);
  std::vector<float> normalized(values);
  if (argc > 14) {
    measure(preprocessing, image, std::stoi(argv[14]), resized.data());
    return 0;
  }
  preprocess::resize_frame(preprocessing, image, resized.data());
  preprocess::normalize(preprocessing, resized.data(), normalized.data());
  std::cout.write(reinterpret_cast<const char*>(resized.data()),
                  static_cast<std::streamsize>(values));
  std::cout.write(reinterpret_cast<const char*>(normalized.data()),
                  static_cast<std::streamsize>(values * sizeof(float)));
}
