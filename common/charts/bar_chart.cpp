#include <algorithm>
#include <cmath>

#include "common/charts/svg.h"
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

}  // namespace coldframe::html
