// Runs `coldframe extract`'s own options, preprocessing and backbone on pictures, for the
// cross-checks with other libraries' processors and models:
//   folder_driver pixels|features PICTURES OUT OPTION… : OPTIONs are extract's, as --weights FOLDER
// PICTURES (a backbone's of clips are the frames of one clip after the other) has for each its
// width and height (int32) and its bytes [height, width, 3]. OUT gets the normalised pixels [N, 3,
// S, S], and the features [N, D] if asked for (float32). Prints S, D and the preprocessing as JSON.
#include <fstream>
#include <iostream>
#include <iterator>

#include "common/cli/error.h"
#include "common/torch/tensor.h"
#include "extract/options.h"
#include "extract/preprocess/preprocessing.h"
#include "tests/support/driver.h"

namespace coldframe::extract {
namespace {

std::vector<frames::Image> read_pictures(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<frames::Image> pictures;
  std::array<std::int32_t, 2> size{};
  while (in.read(reinterpret_cast<char*>(size.data()), sizeof size)) {
    frames::Image picture{size[0], size[1], {}};
    picture.rgb.resize(static_cast<std::size_t>(size[0]) * static_cast<std::size_t>(size[1]) * 3);
    if (!in.read(reinterpret_cast<char*>(picture.rgb.data()),
                 static_cast<std::streamsize>(picture.rgb.size())))
      throw DataError(path + " is cut short");
    pictures.push_back(std::move(picture));
  }
  return pictures;
}

torch::Tensor pixels_of(const preprocess::Preprocessing& steps,
                        const std::vector<frames::Image>& pictures) {
  const auto [height, width] = steps.image_size;
  const torch::Tensor pixels =
      torch::empty({static_cast<std::int64_t>(pictures.size()), 3, height, width});
  std::vector<std::uint8_t> resized(static_cast<std::size_t>(3 * steps.image_size.pixels()));
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    preprocess::resize_frame(steps, pictures[i], resized.data());
    preprocess::normalize(steps, resized.data(),
                          pixels[static_cast<std::int64_t>(i)].data_ptr<float>());
  }
  return pixels;
}

void write(const torch::Tensor& values, std::ofstream& out) {
  out.write(static_cast<const char*>(values.data_ptr()),
            static_cast<std::streamsize>(values.nbytes()));
}

int run_folder(const std::vector<std::string>& arguments) {
  if (arguments.size() < 4 || (arguments[0] != "pixels" && arguments[0] != "features"))
    throw ConfigError("usage: folder_driver pixels|features PICTURES OUT OPTION…");
  std::vector<std::string> words{"--input", "unread", "--out", "unwritten"};
  words.insert(words.end(), arguments.begin() + 3, arguments.end());
  const auto options = parse_extract_options(words);
  if (!options) return 2;
  const torch::Tensor pixels = pixels_of(options->preprocessing, read_pictures(arguments[1]));
  std::ofstream out(arguments[2], std::ios::binary);
  write(pixels, out);
  Json described{{"image_size", options->preprocessing.image_size.width},
                 {"preprocessing", preprocess::to_json(options->preprocessing)}};
  if (arguments[0] == "features") {
    const auto backbone = vit::make_backbone(options->backbone, torch::kCPU, Precision::kFp32);
    const std::int64_t frames = backbone->clip_frames();
    write(backbone->forward(frames > 1 ? pixels.unflatten(0, {-1, frames}) : pixels), out);
    described["dimension"] = backbone->dimension();
    described["clip_frames"] = frames;
    described["backbone"] = backbone->describe();
  }
  std::cout << described.dump() << '\n';
  return out ? 0 : 3;
}

const testing::Driver kFolderDriver{"folder_driver", run_folder};

}  // namespace
}  // namespace coldframe::extract
