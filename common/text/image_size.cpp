#include "common/text/image_size.h"

#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

void require_image_size(const ImageSize& size, const std::string& text) {
  const auto fits = [](std::int64_t side) {
    return side >= kLeastImageSide && side <= kMostImageSide;
  };
  if (fits(size.height) && fits(size.width)) return;
  throw ConfigError(concat("--image-size '", text, "': expected ", kLeastImageSide, " to ",
                           kMostImageSide, " pixels, as S or as HEIGHTxWIDTH"));
}

ImageSize parse_image_size(const std::string& text) {
  const std::vector<std::string> sides = split(lower(text), 'x');
  ImageSize size;
  const bool is_read = sides.size() <= 2 && parse_int(sides.front(), size.height) &&
                       parse_int(sides.back(), size.width);
  require_image_size(is_read ? size : ImageSize(0), text);
  return size;
}

}  // namespace coldframe
