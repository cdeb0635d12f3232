// SVG: scales, text and files of charts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/charts/html.h"

namespace coldframe::html {

// The charts of html.h share this: scales with round ticks, and SVG text.

inline constexpr std::size_t kColours = 8;  // c0 … c7 of the page's style
inline constexpr double kChartWidth = 450;  // of bar charts and histograms, in pixels
inline constexpr double kBelowPlot = 46;    // for the ticks and the name of the x axis

// Values to pixels along one axis.
class Scale {
 public:
  // [low, high] becomes [from, to] in pixels; a range that is a point is widened, and [0, 1] stands
  // for one that is empty or not finite. `whole`: ticks are at whole numbers alone.
  Scale(double low, double high, double from, double to, bool whole = false);

  double operator()(double value) const;  // clamped to the axis
  std::vector<double> ticks() const;      // about five round values within the range
  std::string label(double tick) const;

  double from, to;

 private:
  double low_, high_, step_;
};

// The scales of a plot, which define its position.
struct Plot {
  Scale x, y;
};

std::string pixels(double value);       // a coordinate, to a tenth
std::string number_text(double value);  // for tooltips and cells: "12", "0.9132", "1.2e-07"

// A straight line from one point to another.
std::string svg_line(std::string_view style_class, double x1, double y1, double x2, double y2);
std::string svg_circle(std::string_view style_class, double x, double y, double radius,
                       std::string_view tooltip = "");
// `attributes`: of the <rect>, as they stand.
std::string svg_rectangle(double x, double y, double width, double height,
                          std::string_view attributes, std::string_view tooltip = "");
// <text class="…"> at (x, y); `anchor` is start, middle or end. Escapes.
std::string svg_text(double x, double y, std::string_view anchor, std::string_view text,
                     std::string_view style_class = "");
// Ticks with their numbers, grid, and the names of both axes.
std::string svg_axes(const Plot& plot, std::string_view x_label, std::string_view y_label);
// The whole drawing: its title in bold at the top left, and `content`. Above it strips of pictures,
// where there are any; the title is above these then.
std::string svg_chart(double width, double height, std::string_view title, std::string_view content,
                      std::string_view strips = "");
// Pictures of equal width in a row above a drawing of this width, which has these margins; of many
// only some have their place.
std::string picture_strip(const std::vector<Picture>& pictures, double left, double right,
                          double width);

double text_width(std::string_view text);  // an estimate, in pixels
// At most `pixels` wide, ending in "…" when it was longer. Never cuts a UTF-8 sequence.
std::string shortened(std::string_view text, double pixels);

// Drawings of html.h as files of their own, for a paper.

// The SVG file of a drawing: on white, and without a page's variables and currentColor, which
// programs that edit figures may not know.
std::string svg_file(const std::string& drawing);

// The look of drawings. One table of colours and one of rules give the CSS of pages and that of
// files.

// CSS of a page: the colours as variables (--paper, --card, --ink, --soft, --rule, --on, --c0 …
// --c7), for a light and a dark screen, and the rules of drawings, in which they stand.
std::string page_style_of_drawings();

// CSS of a file: the light colours themselves, for programs that know neither variables nor
// currentColor.
std::string file_style_of_drawings();

}  // namespace coldframe::html
