#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::html {

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

}  // namespace coldframe::html
