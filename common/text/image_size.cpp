#include "common/text/image_size.h"

#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe {

ImageSize parse_image_size(const std::string& text) {
  const std::vector<std::string> sides = split(lower(text), 'x');
  ImageSize size;
  const bool is_read = sides.size() <= 2 && parse_int(sides.front(), size.height) &&
                       parse_int(sides.back(), size.width);
  const auto fits = [](std::int64_t side) {
    return side >= kLeastImageSide && side <= kMostImageSide;
  };
  if (!is_read || !fits(size.height) || !fits(size.width))
    throw ConfigError(concat("--image-size '", text, "': expected ", kLeastImageSide, " to ",
                             kMostImageSide, " pixels, as S or as HEIGHTxWIDTH"));
  return size;
}

}  // namespace coldframe
