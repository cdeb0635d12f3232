#include "extract/frames/window.h"

#include <cmath>
#include <string>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

[[noreturn]] void refuse(std::string_view text) {
  throw ConfigError(concat("--window '", text, "': expected ", window_help()));
}

// One half of "L%,H%".
double parse_percent(std::string_view part, std::string_view whole) {
  double value = 0;
  if (!part.ends_with('%') || !parse_double(trim(part.substr(0, part.size() - 1)), value) ||
      !(value >= 0 && value <= 100)) {
    refuse(whole);
  }
  return value;
}

}  // namespace

std::string_view window_help() {
  return "'file' (what the file says), 'C,W' (center and width, e.g. 40,400) or 'L%,H%' "
         "(percentiles, e.g. 1%,99%)";
}

Window parse_window(std::string_view text) {
  Window window;
  if (text == "file") return window;
  const auto parts = split(text, ',');
  if (parts.size() != 2) refuse(text);
  const auto first = trim(parts[0]), second = trim(parts[1]);
  if (text.find('%') != std::string_view::npos) {
    window.kind = Window::Kind::kPercentiles;
    window.low = parse_percent(first, text);
    window.high = parse_percent(second, text);
    if (window.low >= window.high) refuse(text);
    return window;
  }
  window.kind = Window::Kind::kFixed;
  if (!parse_double(first, window.center) || !parse_double(second, window.width) ||
      !std::isfinite(window.center) || !std::isfinite(window.width) || window.width <= 0) {
    refuse(text);
  }
  return window;
}

std::uint8_t to_level(double value, const ValueRange& range) {
  if (!(value > range.low)) return 0;
  if (value >= range.high) return 255;
  return static_cast<std::uint8_t>(
      std::floor(255.0 * ((value - range.low) / (range.high - range.low)) + 0.5));
}

}  // namespace coldframe::frames
