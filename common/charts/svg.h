// The charts of html.h share this: scales with round ticks, and SVG text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace coldframe::html {

inline constexpr double kChartWidth = 450;  // of bar charts and histograms, in pixels
inline constexpr int kTicks = 5;            // wanted on an axis

// Values to pixels along one axis.
class Scale {
 public:
  // Covers the finite ones of [low, high]; widens a range that is empty or a point.
  Scale(double low, double high, double pixel_low, double pixel_high, bool logarithmic = false);

  double operator()(double value) const;  // clamped to the axis
  bool can_show(double value) const;
  // About `wanted` round values within the range; on a logarithmic scale powers of ten.
  std::vector<double> ticks(int wanted) const;
  std::string label(double tick, int wanted) const;

 private:
  double step(int wanted) const;

  double low_, high_, pixel_low_, pixel_high_;
  bool logarithmic_;
};

// A plot's rectangle in pixels and its scales.
struct Plot {
  double left, right, top, bottom;
  Scale x, y;
  bool whole_x = false, whole_y = false;  // ticks are at whole numbers alone
};

std::string pixels(double value);       // a coordinate, to a tenth
std::string number_text(double value);  // for tooltips and cells: "12", "0.9132", "1.2e-07"

// A straight line from one point to another.
std::string svg_line(std::string_view style_class, double x1, double y1, double x2, double y2);
// `attributes`: of the <rect>, as they stand; `tooltip`: text.
std::string svg_rectangle(double x, double y, double width, double height,
                          std::string_view attributes, std::string_view tooltip);
// <text class="…"> at (x, y); `anchor` is start, middle or end. Escapes.
std::string svg_text(double x, double y, std::string_view anchor, std::string_view text,
                     std::string_view style_class = "");
// Ticks with their numbers, grid, and the names of both axes.
std::string svg_axes(const Plot& plot, std::string_view x_label, std::string_view y_label);
// The opening tag, and the title in bold at the top left.
std::string svg_open(double width, double height, std::string_view title);
// Only the opening tag: the title is for those who cannot see the chart.
std::string svg_open_untitled(double width, double height, std::string_view title);

double text_width(std::string_view text);  // an estimate, in pixels
// At most `pixels` wide, ending in "…" when it was longer. Never cuts a UTF-8 sequence.
std::string shortened(std::string_view text, double pixels);

}  // namespace coldframe::html
