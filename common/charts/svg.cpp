#include "common/charts/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "common/charts/html.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

constexpr double kCharacterWidth = 7.2;  // of 12 px system text, on average

std::string general(double value, int digits) {
  char buffer[40];
  std::snprintf(buffer, sizeof(buffer), "%.*g", digits, value);
  return buffer;
}

}  // namespace

Scale::Scale(double low, double high, double pixel_low, double pixel_high, bool logarithmic)
    : pixel_low_(pixel_low), pixel_high_(pixel_high), logarithmic_(logarithmic) {
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
    low = logarithmic ? 0.1 : 0.0;
    high = 1.0;
  }
  if (logarithmic) {
    low_ = std::log10(low);
    high_ = std::log10(high);
  } else {
    low_ = low;
    high_ = high;
  }
  const double smallest = std::max(std::abs(low_), std::abs(high_)) * 1e-9;
  if (high_ - low_ <= smallest) {
    const double margin = low_ == 0.0 ? 0.5 : 0.1 * std::abs(low_);
    low_ -= margin;
    high_ += margin;
  }
}

bool Scale::can_show(double value) const {
  return std::isfinite(value) && (!logarithmic_ || value > 0.0);
}

double Scale::operator()(double value) const {
  const double position = logarithmic_ ? std::log10(value) : value;
  const double fraction = std::clamp((position - low_) / (high_ - low_), 0.0, 1.0);
  return pixel_low_ + fraction * (pixel_high_ - pixel_low_);
}

// 1, 2 or 5 times a power of ten.
double Scale::step(int wanted) const {
  const double rough = (high_ - low_) / wanted;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double lead = rough / power;
  const double round = lead <= 1.0 ? 1.0 : lead <= 2.0 ? 2.0 : lead <= 5.0 ? 5.0 : 10.0;
  return logarithmic_ ? std::max(1.0, round * power) : round * power;
}

std::vector<double> Scale::ticks(int wanted) const {
  const double distance = step(wanted);
  std::vector<double> values;
  for (double i = std::ceil(low_ / distance - 1e-9); i * distance <= high_ + distance * 1e-9; ++i) {
    const double value = i * distance;
    values.push_back(logarithmic_ ? std::pow(10.0, value) : value);
  }
  if (logarithmic_ && values.size() < 2) {  // less than two decades: label the ends
    values = {std::pow(10.0, low_), std::pow(10.0, high_)};
  }
  return values;
}

std::string Scale::label(double tick, int wanted) const {
  const double distance = step(wanted);
  const double size = std::max(std::abs(low_), std::abs(high_));
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(distance) + 1e-9)));
  if (!logarithmic_ && std::abs(tick) < distance * 1e-9) tick = 0.0;  // and never "-0"
  if (logarithmic_) return general(tick, 3);
  // Written out, these would reach the axis' name.
  const bool thousands = size >= 1e5 && size < 1e6 && distance >= 1e3;
  const bool millions = size >= 1e6 && size < 1e9 && distance >= 1e5;
  if ((thousands || millions) && tick == 0.0) return "0";
  if (thousands) return fixed(tick / 1e3, 0) + "k";
  if (millions) return fixed(tick / 1e6, distance < 1e6 ? 1 : 0) + "M";
  if (size >= 1e6 || distance < 1e-5)  // as many digits as tell neighbours apart
    return general(tick, std::max(3, static_cast<int>(std::ceil(std::log10(size / distance))) + 1));
  return fixed(tick, digits);
}

std::string pixels(double value) {
  std::string text = fixed(value, 1);
  if (text.ends_with(".0")) text.resize(text.size() - 2);
  return text == "-0" ? "0" : text;
}

std::string number_text(double value) {
  if (!std::isfinite(value)) return "n/a";
  if (value == std::round(value) && std::abs(value) < 1e9) return fixed(value, 0);
  return general(value, 4);
}

std::string svg_line(std::string_view style_class, double x1, double y1, double x2, double y2) {
  return concat("<line class=\"", style_class, "\" x1=\"", pixels(x1), "\" y1=\"", pixels(y1),
                "\" x2=\"", pixels(x2), "\" y2=\"", pixels(y2), "\"/>\n");
}

std::string svg_rectangle(double x, double y, double width, double height,
                          std::string_view attributes, std::string_view tooltip) {
  return concat("<rect x=\"", pixels(x), "\" y=\"", pixels(y), "\" width=\"", pixels(width),
                "\" height=\"", pixels(height), "\" ", attributes, "><title>", escape(tooltip),
                "</title></rect>\n");
}

std::string svg_text(double x, double y, std::string_view anchor, std::string_view text,
                     std::string_view style_class) {
  std::string element = concat("<text x=\"", pixels(x), "\" y=\"", pixels(y), "\"");
  if (anchor != "start") element += concat(" text-anchor=\"", anchor, "\"");
  if (!style_class.empty()) element += concat(" class=\"", style_class, "\"");
  return element + ">" + escape(text) + "</text>\n";
}

std::string svg_axes(const Plot& plot, std::string_view x_label, std::string_view y_label) {
  const auto skips = [](bool whole, double tick) {
    return whole && std::abs(tick - std::round(tick)) > 1e-9;
  };
  const auto label = [](const Scale& scale, bool whole, double tick) {
    if (!whole || scale.ticks(kTicks).back() >= 1e5) return scale.label(tick, kTicks);
    return fixed(tick == 0.0 ? 0.0 : tick, 0);  // never "-0"
  };
  std::string svg;
  for (const double tick : plot.y.ticks(kTicks)) {
    if (skips(plot.whole_y, tick)) continue;
    const double y = plot.y(tick);
    svg += svg_line("grid", plot.left, y, plot.right, y);
    svg += svg_text(plot.left - 7, y + 4, "end", label(plot.y, plot.whole_y, tick), "tick");
  }
  for (const double tick : plot.x.ticks(kTicks)) {
    if (skips(plot.whole_x, tick)) continue;
    const double x = plot.x(tick);
    svg += svg_line("axis", x, plot.bottom, x, plot.bottom + 4);
    svg += svg_text(x, plot.bottom + 18, "middle", label(plot.x, plot.whole_x, tick), "tick");
  }
  svg += svg_line("axis", plot.left, plot.bottom, plot.right, plot.bottom);
  svg += svg_text((plot.left + plot.right) / 2, plot.bottom + 36, "middle", x_label, "label");
  const double middle = (plot.top + plot.bottom) / 2;
  return concat(svg, "<g transform=\"rotate(-90 14 ", pixels(middle), ")\">",
                svg_text(14, middle, "middle", y_label, "label"), "</g>\n");
}

std::string svg_open_untitled(double width, double height, std::string_view title) {
  return concat("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 ",
                pixels(width), " ", pixels(height), "\" style=\"max-width:", pixels(width),
                "px\" role=\"img\" aria-label=\"", escape(title), "\">\n");
}

std::string svg_open(double width, double height, std::string_view title) {
  constexpr double kOfTitles = 1.1;  // their letters are larger and bold
  return svg_open_untitled(width, height, title) +
         svg_text(8, 18, "start", shortened(title, (width - 16) / kOfTitles), "title");
}

double text_width(std::string_view text) {
  return kCharacterWidth * static_cast<double>(letters(text));
}

std::string shortened(std::string_view text, double width) {
  if (text_width(text) <= width) return std::string(text);
  const auto room = static_cast<std::size_t>(std::max(1.0, width / kCharacterWidth - 1.0));
  std::size_t end = 0;
  for (std::size_t count = 0; end < text.size(); ++end) {
    if (starts_letter(text[end]) && count++ == room) break;
  }
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace coldframe::html
