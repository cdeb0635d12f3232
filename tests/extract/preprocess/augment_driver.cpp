// Makes a view of frames given as raw pixels, for the cross-checks against Pillow and NumPy:
//   augment_driver LIST SEED EXAM VIEW WIDTH HEIGHT
// reads frames of WIDTH × HEIGHT × 3 bytes from stdin. Writes a line of JSON, the transform and the
// size of the warped frames, then each frame's warped pixels and these again with other levels.
#include <iostream>
#include <iterator>
#include <string>
#include <vector>

#include "extract/preprocess/augment.h"

namespace {

using namespace coldframe;

void write(const std::vector<std::uint8_t>& bytes) {
  std::cout.write(reinterpret_cast<const char*>(bytes.data()),
                  static_cast<std::streamsize>(bytes.size()));
}

Json describe(const augment::Transform& transform, const frames::Image& warped) {
  return {{"flip", transform.flip},
          {"vflip", transform.vflip},
          {"angle", transform.angle},
          {"side", transform.side},
          {"x", transform.x},
          {"y", transform.y},
          {"brightness", transform.brightness},
          {"contrast", transform.contrast},
          {"gamma", transform.gamma},
          {"noise", transform.noise},
          {"width", warped.width},
          {"height", warped.height}};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 7) return 2;
  augment::Augmentation augmentation;
  augment::parse_list(argv[1], augmentation);
  augmentation.seed = std::stoull(argv[2]);
  const std::size_t view = std::stoul(argv[4]);
  augmentation.views = view;
  augment::ExamViews views(augmentation, argv[3]);
  const int width = std::stoi(argv[5]), height = std::stoi(argv[6]);
  const auto bytes = static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3;
  const std::vector<std::uint8_t> all(std::istreambuf_iterator<char>(std::cin), {});
  for (std::size_t at = 0; at + bytes <= all.size(); at += bytes) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(at);
    frames::Image warped =
        views.warp(view, {width, height, {begin, begin + static_cast<std::ptrdiff_t>(bytes)}});
    if (at == 0)
      std::cout << describe(augment::draw_transform(augmentation, argv[3], view), warped).dump()
                << '\n';
    write(warped.rgb);
    views.finish(view, warped.rgb);
    write(warped.rgb);
  }
}
