#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "common/charts/html.h"
#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

constexpr std::size_t kColours = 8;        // c0 … c7 of the page's style
constexpr std::size_t kMaxPoints = 1000;   // of a line
constexpr std::size_t kMaxDots = 2000;     // of a scatter plot
constexpr std::size_t kMaxTooltips = 200;  // of one series
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Range {
  double low = kInfinity, high = -kInfinity;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
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

// Runs of points that can be shown, in pixels; what cannot be shown parts them.
std::vector<std::vector<Point>> runs(const Plot& plot, const std::vector<double>& x,
                                     const std::vector<double>& y, std::size_t count) {
  std::vector<std::vector<Point>> found(1);
  for (std::size_t i = 0; i < count; ++i) {
    if (plot.x.can_show(x[i]) && plot.y.can_show(y[i])) {
      found.back().push_back({plot.x(x[i]), plot.y(y[i])});
    } else if (!found.back().empty()) {
      found.emplace_back();
    }
  }
  if (found.back().empty()) found.pop_back();
  return found;
}

std::string tooltip(const Series& series, std::size_t i) {
  std::string text = series.name.empty() ? "" : series.name + ": ";
  if (i < series.labels.size()) text += series.labels[i] + ": ";
  text += concat(number_text(series.x[i]), ", ", number_text(series.y[i]));
  if (has_band(series)) {
    text += concat(" [", number_text(series.low[i]), " – ", number_text(series.high[i]), "]");
  }
  return "<title>" + escape(text) + "</title>";
}

std::string draw_dots(const Plot& plot, const Series& series, std::string_view style_class,
                      bool visible) {
  const std::size_t count = length(series);
  const std::size_t limit = visible ? kMaxDots : kMaxTooltips;
  const std::size_t stride = series.outliers ? 1 : (count + limit - 1) / limit;
  std::string svg;
  for (std::size_t i = 0; i < count; i += std::max<std::size_t>(stride, 1)) {
    if (!plot.x.can_show(series.x[i]) || !plot.y.can_show(series.y[i])) continue;
    const bool link = i < series.links.size();
    if (link) svg += concat("<a href=\"", escape(series.links[i]), "\">");
    svg += concat("<circle class=\"", style_class, "\" cx=\"", pixels(plot.x(series.x[i])),
                  "\" cy=\"", pixels(plot.y(series.y[i])), "\" r=\"", visible ? 3 : 6, "\">",
                  tooltip(series, i), link ? "</circle></a>\n" : "</circle>\n");
  }
  return svg;
}

std::string draw_band(const Plot& plot, const Series& series) {
  std::string svg;
  std::vector<Point> upper, lower;
  const auto flush = [&] {
    if (upper.size() > 1) {
      upper = thinned(upper);
      lower = thinned(lower);
      upper.insert(upper.end(), lower.rbegin(), lower.rend());
      svg += concat("<polygon class=\"band\" points=\"", path_points(upper), "\"/>\n");
    }
    upper.clear();
    lower.clear();
  };
  for (std::size_t i = 0; i < length(series); ++i) {
    const double x = series.x[i], low = series.low[i], high = series.high[i];
    if (plot.x.can_show(x) && plot.y.can_show(low) && plot.y.can_show(high)) {
      upper.push_back({plot.x(x), plot.y(high)});
      lower.push_back({plot.x(x), plot.y(low)});
    } else {
      flush();
    }
  }
  flush();
  return svg;
}

std::string draw_series(const Plot& plot, const Series& series, std::size_t index) {
  std::string svg = concat("<g class=\"", colour_class(index), "\">");
  if (!series.name.empty()) svg += "<title>" + escape(series.name) + "</title>\n";
  if (has_band(series)) svg += draw_band(plot, series);
  if (series.points)
    return svg + draw_dots(plot, series, dot_class(series, index), true) + "</g>\n";
  const bool dashed = series.dashed || index >= kColours;
  for (const std::vector<Point>& run : runs(plot, series.x, series.y, length(series))) {
    if (run.size() == 1) {  // a line of one point would not be seen
      svg += concat("<circle class=\"dot\" cx=\"", pixels(run[0].x), "\" cy=\"", pixels(run[0].y),
                    "\" r=\"3\"/>\n");
      continue;
    }
    svg += concat("<polyline class=\"line", dashed ? " dashed" : "", "\" points=\"",
                  path_points(thinned(run)), "\"/>\n");
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
    if (series.points) {
      svg += concat("<circle class=\"", dot_class(series, i), "\" cx=\"", pixels(x + 9), "\" cy=\"",
                    pixels(y - 4), "\" r=\"4\"/>");
    } else {
      svg += svg_line(series.dashed || i >= kColours ? "line dashed" : "line", x, y - 4, x + 18,
                      y - 4);
    }
    svg += "</g>" + svg_text(x + 23, y, "start", name, "legend");
    x += needed;
  }
  if (any) y += 16;
  return svg;
}

void find_ranges(const Chart& chart, Range& x, Range& y) {
  const auto take_y = [&](double value) {
    if (std::isfinite(value) && (!chart.log_y || value > 0.0)) y.take(value);
  };
  const bool only_outliers = std::ranges::all_of(chart.series, &Series::outliers);
  for (const Series& series : chart.series) {
    if (series.outliers && !only_outliers) continue;
    for (std::size_t i = 0; i < length(series); ++i) {
      if (std::isfinite(series.x[i])) x.take(series.x[i]);
      take_y(series.y[i]);
      if (has_band(series)) {
        take_y(series.low[i]);
        take_y(series.high[i]);
      }
    }
  }
  if (chart.unit_square) {
    x = {0.0, 1.0};
    y = {0.0, 1.0};
    return;
  }
  const bool dots = std::any_of(chart.series.begin(), chart.series.end(),
                                [](const Series& series) { return series.points; });
  if (dots && x.low < x.high) {  // none is cut by the edge
    const double margin = 0.02 * (x.high - x.low);
    x.low -= margin;
    x.high += margin;
  }
  if (!chart.log_y && y.low < y.high) {
    const double margin = 0.05 * (y.high - y.low);
    const bool positive = y.low >= 0.0;
    y.low = positive ? std::max(0.0, y.low - margin) : y.low - margin;
    y.high += margin;
  }
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
  const Plot plot = {left,
                     right,
                     top,
                     bottom,
                     Scale(x.low, x.high, left, right),
                     Scale(y.low, y.high, bottom, top, chart.log_y),
                     chart.whole_x};
  std::string svg = strips.empty() ? svg_open(width, bottom + 46, chart.title)
                                   : svg_open_untitled(width, bottom + 46, chart.title);
  svg += legend + svg_axes(plot, chart.x_label, chart.y_label);
  if ((chart.unit_square && !chart.no_diagonal) || chart.diagonal) svg += draw_diagonal(plot, x, y);
  if (empty || chart.series.empty()) {
    svg += svg_text((left + right) / 2, (top + bottom) / 2, "middle", "no data", "label");
  }
  for (std::size_t i = 0; i < chart.series.size(); ++i) {
    svg += draw_series(plot, chart.series[i], i);
  }
  return framed(chart.title, width, strips, svg + "</svg>\n");
}

}  // namespace coldframe::html
