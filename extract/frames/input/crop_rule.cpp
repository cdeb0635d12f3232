#include "extract/frames/input/crop_rule.h"

#include <array>

#include "common/text/text.h"

namespace coldframe::frames {

std::optional<CropRule> parse_crop(std::string_view text) {
  using Kind = CropRule::Kind;
  if (text == "none") return CropRule{Kind::kNone, {}};
  if (text == "auto") return CropRule{Kind::kAuto, {}};
  constexpr std::int64_t kMostPixels = 1 << 28;
  const auto parts = split(text, ',');
  std::array<std::int64_t, 4> values{};
  if (parts.size() != values.size()) return std::nullopt;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool corner = i < 2;
    if (!parse_int(trim(parts[i]), values[i]) || values[i] < (corner ? 0 : 1) ||
        values[i] > kMostPixels) {
      return std::nullopt;
    }
  }
  const auto at = [&](std::size_t i) { return static_cast<int>(values[i]); };
  return CropRule{Kind::kFixed, {at(0), at(1), at(2), at(3)}};
}

}  // namespace coldframe::frames
