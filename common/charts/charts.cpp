#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include "common/charts/svg.h"
#include "common/numbers/quantile.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

double widest(const std::vector<std::string>& labels) {
  double width = 0.0;
  for (const std::string& label : labels) width = std::max(width, text_width(label));
  return width;
}

}  // namespace

std::string bar_chart(std::string_view title, const std::vector<Bar>& bars, std::string_view unit) {
  constexpr double kRow = 26, kTop = 32;
  std::vector<std::string> labels;
  double low = 0.0, high = 0.0;
  for (const Bar& bar : bars) {
    labels.push_back(bar.label);
    if (!std::isfinite(bar.value)) continue;
    low = std::min(low, bar.value);
    high = std::max(high, bar.value);
  }
  const double label_width = std::min(widest(labels), 150.0);
  const double left = 18 + label_width, right = kChartWidth - 84;
  const Scale scale(low, high > low ? high : low + 1.0, left, right);
  const double height =
      kTop + kRow * static_cast<double>(std::max<std::size_t>(bars.size(), 1)) + 8;

  std::string svg;
  if (bars.empty()) svg = svg_text(kChartWidth / 2, kTop + 16, "middle", "no data", "label");
  double y = kTop;
  for (const Bar& bar : bars) {
    const std::string value =
        number_text(bar.value) + (unit.empty() ? std::string() : concat(" ", unit));
    svg += svg_text(left - 8, y + 17, "end", shortened(bar.label, label_width + 1), "label");
    double end = left;
    if (std::isfinite(bar.value)) {
      const double zero = scale(0.0), at = scale(bar.value);
      svg += svg_rectangle(std::min(zero, at), y + 3, std::max(1.0, std::abs(at - zero)), kRow - 6,
                           "class=\"bar c0\" rx=\"2\"", bar.label + ": " + value);
      end = std::max(zero, at);
    }
    svg += svg_text(end + 6, y + 17, "start", value, "tick");
    y += kRow;
  }
  return svg_chart(kChartWidth, height, title, svg);
}

std::string matrix_chart(std::string_view title, const std::vector<std::string>& row_labels,
                         const std::vector<std::string>& column_labels,
                         const std::vector<std::vector<double>>& cells) {
  constexpr double kTop = 56, kCellHeight = 40;
  const auto columns = static_cast<double>(std::max<std::size_t>(column_labels.size(), 1));
  const double label_width = std::min(widest(row_labels), 150.0);
  const double left = 18 + label_width;
  const double cell = std::clamp((kChartWidth - left - 10) / columns, 34.0, 96.0);
  const double width = std::max(left + cell * columns + 10, 26 + text_width(title) * 1.15);
  double most = 0.0;
  for (const auto& row : cells)
    for (const double value : row)
      if (std::isfinite(value)) most = std::max(most, value);
  std::string svg;
  for (std::size_t c = 0; c < column_labels.size(); ++c) {
    svg += svg_text(left + cell * (static_cast<double>(c) + 0.5), kTop - 8, "middle",
                    shortened(column_labels[c], cell - 4), "label");
  }
  for (std::size_t r = 0; r < cells.size(); ++r) {
    const double y = kTop + kCellHeight * static_cast<double>(r);
    const std::string row = r < row_labels.size() ? row_labels[r] : "";
    svg += svg_text(left - 8, y + 25, "end", shortened(row, label_width + 1), "label");
    for (std::size_t c = 0; c < cells[r].size() && c < column_labels.size(); ++c) {
      const double value = cells[r][c], x = left + cell * static_cast<double>(c);
      const double share =
          std::isfinite(value) && most > 0.0 ? std::clamp(value / most, 0.0, 1.0) : 0.0;
      svg += svg_rectangle(
          x + 1, y + 1, cell - 2, kCellHeight - 2,
          concat("class=\"cell c0\" rx=\"3\" fill-opacity=\"", fixed(0.06 + 0.86 * share, 2), "\""),
          concat(row, " / ", column_labels[c], ": ", number_text(value)));
      svg += svg_text(x + cell / 2, y + 25, "middle", number_text(value),
                      share > 0.55 ? "value strong" : "value");
    }
  }
  const double height = kTop + kCellHeight * static_cast<double>(cells.size()) + 10;
  return svg_chart(width, height, title, svg);
}

namespace {

constexpr double kEdge = 8, kBelowTitle = 30, kLineHeight = 16, kInset = 8;
constexpr double kBetween = 14, kArrow = 7;       // between boxes; of an arrow's head
constexpr double kMainWidth = 190, kSideX = 224;  // of the column, and where exclusions begin
constexpr double kAxis = kEdge + kMainWidth / 2;  // that the main arrows run along
constexpr double kSideWidth = kChartWidth - kEdge - kSideX;

double height_of(const FlowChart::Box& box) {
  return 2 * kInset + kLineHeight * static_cast<double>(box.size()) - 4;
}

std::string box_at(double x, double y, double width, const FlowChart::Box& box) {
  std::string svg =
      svg_rectangle(x, y, width, height_of(box), "class=\"axis\" fill=\"none\" rx=\"3\"");
  double baseline = y + kInset + 10;
  for (const std::string& line : box) {
    svg += svg_text(x + kInset, baseline, "start", shortened(line, width - 2 * kInset));
    baseline += kLineHeight;
  }
  return svg;
}

// Either coordinate is the same at both ends.
std::string arrow_to(double x, double y, double to_x, double to_y) {
  const bool down = x == to_x;
  const std::string head = down ? concat("l -4 -", pixels(kArrow), " h 8 z")
                                : concat("l -", pixels(kArrow), " -4 v 8 z");
  return svg_line("axis", x, y, to_x, to_y) + concat("<path class=\"tick\" d=\"M ", pixels(to_x),
                                                     " ", pixels(to_y), " ", head, "\"/>\n");
}

// Side by side below `top`, each with an arrow from one bar.
std::string arms_below(double top, const FlowChart& flow) {
  const auto count = static_cast<double>(flow.arms.size());
  const double width = (kChartWidth - 2 * kEdge - (count - 1) * kBetween / 2) / count;
  const double bar = top + kBetween + 4, y = bar + kBetween;
  const auto centre = [&](double arm) { return kEdge + arm * (width + kBetween / 2) + width / 2; };
  std::string svg = svg_line("axis", kAxis, top, kAxis, bar);
  if (!flow.division.empty()) svg += svg_text(kAxis + 8, bar - 5, "start", flow.division, "label");
  svg += svg_line("axis", std::min(kAxis, centre(0)), bar, std::max(kAxis, centre(count - 1)), bar);
  for (std::size_t i = 0; i < flow.arms.size(); ++i) {
    const double x = centre(static_cast<double>(i));
    svg += arrow_to(x, bar, x, y) + box_at(x - width / 2, y, width, flow.arms[i]);
  }
  return svg;
}

}  // namespace

std::string flow_chart(const FlowChart& flow) {
  const double found_end = kBelowTitle + height_of(flow.found);
  const double side = found_end + kBetween, side_middle = side + height_of(flow.left_out) / 2;
  const double kept = side + height_of(flow.left_out) + kBetween;
  const double kept_end = kept + height_of(flow.kept);
  double tallest = 0;
  for (const FlowChart::Box& arm : flow.arms) tallest = std::max(tallest, height_of(arm));
  const double end = kept_end + (flow.arms.empty() ? 0 : 2 * kBetween + 4 + tallest);
  const std::string content = concat(
      box_at(kEdge, kBelowTitle, kMainWidth, flow.found), arrow_to(kAxis, found_end, kAxis, kept),
      arrow_to(kAxis, side_middle, kSideX, side_middle),
      box_at(kSideX, side, kSideWidth, flow.left_out), box_at(kEdge, kept, kMainWidth, flow.kept),
      flow.arms.empty() ? "" : arms_below(kept_end, flow));
  return svg_chart(kChartWidth, end + kEdge, flow.title, content);
}

// Squares of values, with pictures above their columns.

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

// A histogram counts how often each of many values occurs.

namespace {

constexpr double kPlotHeight = 170, kLeft = 68, kRight = kChartWidth - 14, kTop = 34;
constexpr double kSteps = 30;

struct Steps {
  double first = 0, width = 1;
  bool whole = false;  // numbers, each in the middle of its step or of several of them
  std::vector<std::size_t> counts;
};

Steps count_values(const std::vector<double>& finite) {
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end());
  const double span = *high / kSteps - *low / kSteps;  // of a step; the whole may overflow
  const bool whole = span < 1e6 && std::all_of(finite.begin(), finite.end(), [](double value) {
                       return value == std::round(value);
                     });
  Steps steps;
  steps.whole = whole;
  if (whole) {
    steps.width = std::max(1.0, std::ceil((*high - *low + 1) / kSteps));
    steps.first = *low - 0.5;
  } else {
    steps.width = *high > *low ? span : std::max(1e-9, std::abs(*low) * 0.1);
    steps.first = *high > *low ? *low : *low - steps.width / 2;
  }
  for (const double value : finite) {
    const double position = value / steps.width - steps.first / steps.width;
    const auto at = static_cast<std::size_t>(std::clamp(position, 0.0, kSteps - 1));
    if (at >= steps.counts.size()) steps.counts.resize(at + 1);
    ++steps.counts[at];
  }
  return steps;
}

std::string range_text(const Steps& steps, double from) {
  const double first = steps.whole ? from + 0.5 : from;
  const double last = steps.whole ? from + steps.width - 0.5 : from + steps.width;
  return first == last ? number_text(first) : concat(number_text(first), " to ", number_text(last));
}

std::string draw_steps(const Steps& steps, const Plot& plot, std::string_view counted) {
  std::string svg = "<g class=\"c0\">";
  for (std::size_t i = 0; i < steps.counts.size(); ++i) {
    if (steps.counts[i] == 0) continue;
    const double from = steps.first + static_cast<double>(i) * steps.width;
    const double left = plot.x(from), right = plot.x(from + steps.width);
    const double top = plot.y(static_cast<double>(steps.counts[i]));
    svg += svg_rectangle(left, top, std::max(1.0, right - left - 1),
                         std::max(1.0, plot.y.from - top), "class=\"bar\"",
                         concat(range_text(steps, from), ": ", steps.counts[i], " ", counted));
  }
  return svg + "</g>\n";
}

}  // namespace

std::string histogram(std::string_view title, std::string_view x_label, std::string_view counted,
                      const std::vector<double>& values) {
  const double bottom = kTop + kPlotHeight, middle = (kTop + bottom) / 2;
  const std::vector<double> finite = finite_values(values);
  std::string content = svg_text((kLeft + kRight) / 2, middle, "middle", "no data", "label");
  if (!finite.empty()) {
    const Steps steps = count_values(finite);
    const auto most = static_cast<double>(std::ranges::max(steps.counts));
    const double end = steps.first + steps.width * static_cast<double>(steps.counts.size());
    const Plot plot{Scale(steps.first, end, kLeft, kRight, steps.whole),
                    Scale(0, most * 1.05, bottom, kTop, true)};
    content = svg_axes(plot, x_label, counted) + draw_steps(steps, plot, counted);
  }
  return svg_chart(kChartWidth, bottom + kBelowPlot, title, content);
}

namespace {

constexpr std::size_t kMaxPoints = 1000;   // of a line
constexpr std::size_t kMaxDots = 2000;     // of a scatter plot
constexpr std::size_t kMaxTooltips = 200;  // of one series
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  double low = kInfinity, high = -kInfinity;
  void take(double value) {
    if (!std::isfinite(value)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  void widen(double share) {  // so that the edge cuts nothing
    const double margin = low < high ? share * (high - low) : 0;
    low -= margin;
    high += margin;
  }
};

struct Point {
  double x, y;
};

std::size_t length(const Series& series) {
  return std::min(series.x.size(), series.y.size());
}
bool has_band(const Series& series) {
  return !series.low.empty() && std::min(series.low.size(), series.high.size()) >= length(series);
}

std::string colour_class(std::size_t index) {
  return concat("c", index % kColours);
}
// The second time round the colours, dots are rings and lines dashed.
std::string dot_class(const Series& series, std::size_t index) {
  return series.outliers || index >= kColours ? "dot ring" : "dot";
}
std::string line_class(const Series& series, std::size_t index) {
  return series.dashed || index >= kColours ? "line dashed" : "line";
}

// The lowest and the highest of each run of neighbours, so that no spike is lost.
std::vector<Point> thinned(const std::vector<Point>& points) {
  if (points.size() <= kMaxPoints) return points;
  const std::size_t buckets = kMaxPoints / 2 - 1;
  std::vector<Point> kept = {points.front()};
  for (std::size_t b = 0; b < buckets; ++b) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(b * points.size() / buckets);
    const auto end =
        points.begin() + static_cast<std::ptrdiff_t>((b + 1) * points.size() / buckets);
    auto [low, high] =
        std::minmax_element(begin, end, [](const Point& a, const Point& c) { return a.y < c.y; });
    if (high < low) std::swap(low, high);
    kept.push_back(*low);
    if (low != high) kept.push_back(*high);
  }
  kept.push_back(points.back());
  return kept;
}

std::string path_points(const std::vector<Point>& points) {
  std::string text;
  for (const Point& point : points) {
    if (!text.empty()) text += ' ';
    text += pixels(point.x) + "," + pixels(point.y);
  }
  return text;
}

// Runs of points that can be shown with all of these y, a line of pixels for each of them; what
// cannot be shown parts them.
using Lines = std::vector<std::vector<Point>>;
std::vector<Lines> runs(const Plot& plot, const Series& series,
                        const std::vector<const std::vector<double>*>& ys) {
  std::vector<Lines> found;
  bool parted = true;
  for (std::size_t i = 0; i < length(series); ++i) {
    const bool shown = std::isfinite(series.x[i]) && std::ranges::all_of(ys, [&](const auto* y) {
                         return std::isfinite((*y)[i]);
                       });
    if (shown && parted) found.emplace_back(ys.size());
    parted = !shown;
    for (std::size_t k = 0; shown && k < ys.size(); ++k)
      found.back()[k].push_back({plot.x(series.x[i]), plot.y((*ys[k])[i])});
  }
  return found;
}

std::string tooltip(const Series& series, std::size_t i) {
  std::string text = series.name.empty() ? "" : series.name + ": ";
  if (i < series.labels.size()) text += series.labels[i] + ": ";
  text += concat(number_text(series.x[i]), ", ", number_text(series.y[i]));
  if (has_band(series)) {
    text += concat(" [", number_text(series.low[i]), " – ", number_text(series.high[i]), "]");
  }
  return text;
}

std::string draw_dots(const Plot& plot, const Series& series, std::string_view style_class,
                      bool visible) {
  const std::size_t count = length(series);
  const std::size_t limit = visible ? kMaxDots : kMaxTooltips;
  const std::size_t stride = series.outliers ? 1 : (count + limit - 1) / limit;
  std::string svg;
  for (std::size_t i = 0; i < count; i += std::max<std::size_t>(stride, 1)) {
    if (!std::isfinite(series.x[i]) || !std::isfinite(series.y[i])) continue;
    const bool link = i < series.links.size();
    if (link) svg += concat("<a href=\"", escape(series.links[i]), "\">");
    svg += svg_circle(style_class, plot.x(series.x[i]), plot.y(series.y[i]), visible ? 3 : 6,
                      tooltip(series, i));
    if (link) svg += "</a>\n";
  }
  return svg;
}

std::string draw_band(const Plot& plot, const Series& series) {
  std::string svg;
  for (const Lines& run : runs(plot, series, {&series.high, &series.low})) {
    if (run[0].size() < 2) continue;
    std::vector<Point> outline = thinned(run[0]), lower = thinned(run[1]);
    outline.insert(outline.end(), lower.rbegin(), lower.rend());
    svg += concat("<polygon class=\"band\" points=\"", path_points(outline), "\"/>\n");
  }
  return svg;
}

std::string draw_series(const Plot& plot, const Series& series, std::size_t index) {
  std::string svg = concat("<g class=\"", colour_class(index), "\">");
  if (!series.name.empty()) svg += "<title>" + escape(series.name) + "</title>\n";
  if (has_band(series)) svg += draw_band(plot, series);
  if (series.points)
    return svg + draw_dots(plot, series, dot_class(series, index), true) + "</g>\n";
  for (const Lines& run : runs(plot, series, {&series.y})) {
    const std::vector<Point>& line = run[0];
    svg += line.size() == 1  // which would not be seen
               ? svg_circle("dot", line[0].x, line[0].y, 3)
               : concat("<polyline class=\"", line_class(series, index), "\" points=\"",
                        path_points(thinned(line)), "\"/>\n");
  }
  return svg + draw_dots(plot, series, "hover", false) + "</g>\n";
}

// Swatches and names below the title, as many rows as they need; `y` moves down past them.
std::string draw_legend(const Chart& chart, double width, double& y) {
  std::string svg;
  double x = 8;
  bool any = false;
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    const Series& series = chart.series[i];
    if (series.name.empty()) continue;
    const std::string name = shortened(series.name, width - 50);
    const double needed = 38 + text_width(name);
    if (any && x + needed > width) {
      x = 8;
      y += 18;
    }
    any = true;
    svg += concat("<g class=\"", colour_class(i), "\">");
    svg += series.points ? svg_circle(dot_class(series, i), x + 9, y - 4, 4)
                         : svg_line(line_class(series, i), x, y - 4, x + 18, y - 4);
    svg += "</g>" + svg_text(x + 23, y, "start", name, "legend");
    x += needed;
  }
  if (any) y += 16;
  return svg;
}

void find_ranges(const Chart& chart, Range& x, Range& y) {
  const bool only_outliers = std::ranges::all_of(chart.series, &Series::outliers);
  for (const Series& series : chart.series) {
    if (series.outliers && !only_outliers) continue;
    for (std::size_t i = 0; i < length(series); ++i) {
      x.take(series.x[i]);
      y.take(series.y[i]);
      if (!has_band(series)) continue;
      y.take(series.low[i]);
      y.take(series.high[i]);
    }
  }
  if (chart.unit_square) {
    x = y = {0.0, 1.0};
    return;
  }
  if (std::ranges::any_of(chart.series, &Series::points)) x.widen(0.02);
  const double least = y.low >= 0.0 ? 0.0 : -kInfinity;
  y.widen(0.05);
  y.low = std::max(y.low, least);
}

std::string draw_diagonal(const Plot& plot, const Range& x, const Range& y) {
  const double low = std::max(x.low, y.low), high = std::min(x.high, y.high);
  if (!(low < high)) return "";
  return svg_line("diagonal", plot.x(low), plot.y(low), plot.x(high), plot.y(high));
}

}  // namespace

std::string line_chart(const Chart& chart) {
  const double width = chart.unit_square ? 380 : chart.large ? 640 : 450;
  const double plot_height = chart.unit_square ? 300 : chart.large ? 380 : 220;
  const double left = 68, right = width - 14;
  std::string strips;
  for (const std::vector<Picture>& row : chart.above)
    if (!row.empty()) strips += picture_strip(row, left, width - right, width);
  double legend_y = strips.empty() ? 38 : 18;
  const std::string legend = draw_legend(chart, width, legend_y);
  const double top = legend_y, bottom = top + plot_height;

  Range x, y;
  find_ranges(chart, x, y);
  const bool empty = !(x.low <= x.high && y.low <= y.high);
  const Plot plot{Scale(x.low, x.high, left, right, chart.whole_x),
                  Scale(y.low, y.high, bottom, top)};
  std::string content = legend + svg_axes(plot, chart.x_label, chart.y_label);
  if (chart.diagonal) content += draw_diagonal(plot, x, y);
  if (empty || chart.series.empty())
    content += svg_text((left + right) / 2, (top + bottom) / 2, "middle", "no data", "label");
  for (std::size_t i = 0; i < chart.series.size(); ++i)
    content += draw_series(plot, chart.series[i], i);
  return svg_chart(width, bottom + kBelowPlot, chart.title, content, strips);
}

namespace {

constexpr double kNarrowestPicture = 32;  // pixels
constexpr std::string_view kPngStart = "\x89PNG";

std::string percent(double share) {
  return fixed(100 * share, 3) + "%";
}

}  // namespace

// One of several columns has a picture that is as wide as they are together, where columns are
// narrower than a picture can be: that of the middle one, if it has one, else of the first that
// has.
std::string picture_strip(const std::vector<Picture>& pictures, double left, double right,
                          double width) {
  const auto n = static_cast<double>(pictures.size());
  const auto every =
      static_cast<std::size_t>(std::ceil(kNarrowestPicture * n / (width - left - right)));
  std::string html = concat("<div class=\"strip\" style=\"margin:0 ", percent(right / width), " 0 ",
                            percent(left / width), "\">\n");
  for (std::size_t first = 0; first < pictures.size(); first += every) {
    const std::size_t columns = std::min(every, pictures.size() - first);
    const auto group = std::span(pictures).subspan(first, columns);
    const auto any = std::find_if(group.begin(), group.end(),
                                  [](const Picture& each) { return !each.file.empty(); });
    const Picture& middle = group[columns / 2];
    const Picture& picture = middle.file.empty() && any != group.end() ? *any : middle;
    const std::string style =
        concat("style=\"width:", percent(static_cast<double>(columns) / n), "\"");
    html += picture.file.empty()
                ? concat("<span ", style, "></span>\n")
                : concat("<img ", style, " alt=\"", escape(picture.alt), "\" title=\"",
                         escape(picture.alt), "\" src=\"data:image/",
                         picture.file.starts_with(kPngStart) ? "png" : "jpeg", ";base64,",
                         to_base64(picture.file), "\"/>\n");
  }
  return html + "</div>\n";
}

}  // namespace coldframe::html
