#include <algorithm>

#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::html {
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

}  // namespace coldframe::html
