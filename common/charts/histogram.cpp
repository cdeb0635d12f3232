// A histogram counts how often each of many values occurs.
#include <algorithm>
#include <cmath>

#include "common/charts/svg.h"
#include "common/numbers/finite.h"
#include "common/text/text.h"

namespace coldframe::html {

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

}  // namespace coldframe::html
