// Squares of values, with pictures above their columns.
#include <algorithm>
#include <cmath>

#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

constexpr std::size_t kLevels = 16;
constexpr double kMargin = 40, kRightMargin = 58, kBelow = 26;
constexpr double kBarGap = 10, kBar = 10;  // from the cells to the bar of colours, and its width
constexpr double kTitle = 34, kSide = 300;
// A map with pictures is larger, and its title stands above the strip.
constexpr double kGap = 3, kPicturedSide = 528;

struct Square {
  double top, side, cell;  // in pixels
  double width() const { return kMargin + side + kRightMargin; }
};

// One path per level: thousands of cells would be a megabyte as rectangles.
std::string draw_cells(const std::vector<std::vector<double>>& cells, double low, double high,
                       const Square& square) {
  std::vector<std::string> paths(kLevels);
  const std::string edge = fixed(square.cell, 2);
  for (std::size_t r = 0; r < cells.size(); ++r) {
    for (std::size_t c = 0; c < cells[r].size(); ++c) {
      if (!std::isfinite(cells[r][c])) continue;
      const double share =
          high > low ? std::clamp((cells[r][c] - low) / (high - low), 0.0, 1.0) : 1.0;
      const auto level = static_cast<std::size_t>(std::lround(share * (kLevels - 1)));
      paths[level] += concat("M", fixed(kMargin + square.cell * static_cast<double>(c), 2), " ",
                             fixed(square.top + square.cell * static_cast<double>(r), 2), "h", edge,
                             "v", edge, "h-", edge, "z");
    }
  }
  // The bar beside them says what each level stands for.
  const double left = kMargin + square.side + kBarGap, step = square.side / kLevels;
  std::string svg = "<g class=\"c0\">\n";
  for (std::size_t level = 0; level < kLevels; ++level)
    svg += concat("<path class=\"cell\" fill-opacity=\"",
                  fixed(0.04 + 0.96 * static_cast<double>(level) / (kLevels - 1), 2), "\" d=\"",
                  paths[level], "M", pixels(left), " ",
                  fixed(square.top + square.side - step * static_cast<double>(level + 1), 2), "h",
                  pixels(kBar), "v", fixed(step, 2), "h-", pixels(kBar), "z\"/>\n");
  const double right = left + kBar + 4;
  return concat(svg, "</g>\n", svg_text(right, square.top + 9, "start", number_text(high), "tick"),
                svg_text(right, square.top + square.side, "start", number_text(low), "tick"));
}

std::string number_axes(std::size_t count, const std::vector<std::size_t>& numbers,
                        const Square& square) {
  std::string svg;
  const std::size_t step = std::max<std::size_t>(1, (count + 7) / 8);
  for (std::size_t i = 0; i < count && i < numbers.size(); i += step) {
    const double at = square.cell * (static_cast<double>(i) + 0.5);
    svg += svg_text(kMargin - 6, square.top + at + 4, "end", concat(numbers[i]), "tick");
    svg +=
        svg_text(kMargin + at, square.top + square.side + 16, "middle", concat(numbers[i]), "tick");
  }
  return svg;
}

}  // namespace

std::string heat_map(std::string_view title, const std::vector<std::vector<double>>& cells,
                     double low, double high, const std::vector<std::size_t>& numbers,
                     const std::vector<Picture>& above) {
  const auto n = static_cast<double>(std::max<std::size_t>(1, cells.size()));
  Square square{kTitle, kSide, kSide / n};
  if (!above.empty()) square = {kGap, kPicturedSide, kPicturedSide / n};
  const double height = square.top + square.side + kBelow;
  const double width = square.width();
  const std::string strip = above.empty() ? "" : picture_strip(above, kMargin, kRightMargin, width);
  return svg_chart(
      width, height, title,
      draw_cells(cells, low, high, square) + number_axes(cells.size(), numbers, square), strip);
}

}  // namespace coldframe::html
