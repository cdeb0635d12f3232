#include "extract/frames/input/crop_rule.h"

#include "common/text/text.h"

namespace coldframe::frames {
namespace {

constexpr std::int64_t kMostPixels = 1 << 28;

// "120", "50%", "100%-50"; `least`: of a length that has no share.
bool parse_length(std::string_view text, std::int64_t least, CropLength& length) {
  const std::size_t share_end = text.find('%');
  std::int64_t pixels = 0;
  if (share_end != std::string_view::npos) {
    const std::string_view rest = text.substr(share_end + 1);
    if (!parse_double(text.substr(0, share_end), length.percent) ||
        !(length.percent >= 0 && length.percent <= 100))
      return false;
    if (!rest.empty()) {
      const bool is_signed = rest.front() == '+' || rest.front() == '-';
      if (!is_signed || !parse_int(rest.substr(1), pixels) || pixels < 0) return false;
      if (rest.front() == '-') pixels = -pixels;
    }
    least = length.percent > 0 ? -kMostPixels : least;
  } else if (!parse_int(text, pixels)) {
    return false;
  }
  length.pixels = static_cast<int>(pixels);
  return pixels >= least && pixels <= kMostPixels;
}

}  // namespace

std::optional<CropRule> parse_crop(std::string_view text) {
  using Kind = CropRule::Kind;
  if (text == "none") return CropRule{Kind::kNone, {}};
  if (text == "auto") return CropRule{Kind::kAuto, {}};
  const auto parts = split(text, ',');
  CropRule rule{Kind::kFixed, {}};
  if (parts.size() != rule.edges.size()) return std::nullopt;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool is_corner = i < 2;
    if (!parse_length(trim(parts[i]), is_corner ? 0 : 1, rule.edges[i])) return std::nullopt;
  }
  return rule;
}

}  // namespace coldframe::frames
