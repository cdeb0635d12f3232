#include "extract/preprocess/crop.h"

#include <cstring>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::preprocess {

std::string to_text(const frames::Rect& rect) {
  return concat(rect.x, ',', rect.y, ',', rect.width, ',', rect.height);
}

std::string to_text(const frames::CropRule& rule) {
  if (rule.kind == frames::CropRule::Kind::kFixed) return to_text(rule.rect);
  return rule.kind == frames::CropRule::Kind::kAuto ? "auto" : "none";
}

frames::Image crop_image(const frames::Image& image, const frames::Rect& rect) {
  if (rect.x < 0 || rect.y < 0 || rect.width < 1 || rect.height < 1 ||
      rect.width > image.width - rect.x || rect.height > image.height - rect.y)
    throw DataError(concat("the crop ", to_text(rect), " (x,y,w,h) does not lie within a frame of ",
                           image.width, "×", image.height,
                           " pixels; correct it, or give those exams a crop of their own in the ",
                           "manifest's column 'crop'"));
  frames::Image part{rect.width, rect.height, {}};
  const std::size_t row = static_cast<std::size_t>(rect.width) * 3;
  part.rgb.resize(row * static_cast<std::size_t>(rect.height));
  const std::uint8_t* from =
      image.rgb.data() + (static_cast<std::size_t>(rect.y) * static_cast<std::size_t>(image.width) +
                          static_cast<std::size_t>(rect.x)) *
                             3;
  for (std::size_t y = 0; y < static_cast<std::size_t>(rect.height); ++y)
    std::memcpy(part.rgb.data() + y * row, from + y * static_cast<std::size_t>(image.width) * 3,
                row);
  return part;
}

}  // namespace coldframe::preprocess
