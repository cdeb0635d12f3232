#include "common/charts/svg.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <iterator>
#include <string_view>
#include <vector>

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

// The end of a tag, with what shows where a mouse rests on its element.
std::string closed(std::string_view tag, std::string_view tooltip) {
  if (tooltip.empty()) return "/>\n";
  return concat("><title>", escape(tooltip), "</title></", tag, ">\n");
}

}  // namespace

Scale::Scale(double low, double high, double pixel_from, double pixel_to, bool whole)
    : from(pixel_from), to(pixel_to), low_(low), high_(high) {
  if (!std::isfinite(low) || !std::isfinite(high) || low > high) {
    low_ = 0.0;
    high_ = 1.0;
  }
  const double smallest = std::max(std::abs(low_), std::abs(high_)) * 1e-9;
  if (high_ - low_ <= smallest) {
    const double margin = low_ == 0.0 ? 0.5 : 0.1 * std::abs(low_);
    low_ -= margin;
    high_ += margin;
  }
  // 1, 2 or 5 times a power of ten.
  constexpr int kTicks = 5;
  const double rough = (high_ - low_) / kTicks;
  const double power = std::pow(10.0, std::floor(std::log10(rough)));
  const double lead = rough / power;
  step_ = power * (lead <= 1.0 ? 1.0 : lead <= 2.0 ? 2.0 : lead <= 5.0 ? 5.0 : 10.0);
  if (whole) step_ = std::max(1.0, step_);
}

double Scale::operator()(double value) const {
  return from + std::clamp((value - low_) / (high_ - low_), 0.0, 1.0) * (to - from);
}

std::vector<double> Scale::ticks() const {
  std::vector<double> values;
  for (double i = std::ceil(low_ / step_ - 1e-9); i * step_ <= high_ + step_ * 1e-9; ++i)
    values.push_back(i * step_);
  return values;
}

std::string Scale::label(double tick) const {
  const double size = std::max(std::abs(low_), std::abs(high_));
  const int digits = std::max(0, static_cast<int>(-std::floor(std::log10(step_) + 1e-9)));
  if (std::abs(tick) < step_ * 1e-9) tick = 0.0;  // and never "-0"
  // Written out, these would reach the axis' name.
  const bool thousands = size >= 1e5 && size < 1e6 && step_ >= 1e3;
  const bool millions = size >= 1e6 && size < 1e9 && step_ >= 1e5;
  if ((thousands || millions) && tick == 0.0) return "0";
  if (thousands) return fixed(tick / 1e3, 0) + "k";
  if (millions) return fixed(tick / 1e6, step_ < 1e6 ? 1 : 0) + "M";
  if (size >= 1e6 || step_ < 1e-5)  // as many digits as tell neighbours apart
    return general(tick, std::max(3, static_cast<int>(std::ceil(std::log10(size / step_))) + 1));
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

std::string svg_circle(std::string_view style_class, double x, double y, double radius,
                       std::string_view tooltip) {
  return concat("<circle class=\"", style_class, "\" cx=\"", pixels(x), "\" cy=\"", pixels(y),
                "\" r=\"", pixels(radius), "\"", closed("circle", tooltip));
}

std::string svg_rectangle(double x, double y, double width, double height,
                          std::string_view attributes, std::string_view tooltip) {
  return concat("<rect x=\"", pixels(x), "\" y=\"", pixels(y), "\" width=\"", pixels(width),
                "\" height=\"", pixels(height), "\" ", attributes, closed("rect", tooltip));
}

std::string svg_text(double x, double y, std::string_view anchor, std::string_view text,
                     std::string_view style_class) {
  std::string element = concat("<text x=\"", pixels(x), "\" y=\"", pixels(y), "\"");
  if (anchor != "start") element += concat(" text-anchor=\"", anchor, "\"");
  if (!style_class.empty()) element += concat(" class=\"", style_class, "\"");
  return element + ">" + escape(text) + "</text>\n";
}

std::string svg_axes(const Plot& plot, std::string_view x_label, std::string_view y_label) {
  const double left = plot.x.from, right = plot.x.to, bottom = plot.y.from;
  std::string svg;
  for (const double tick : plot.y.ticks()) {
    const double y = plot.y(tick);
    svg += svg_line("grid", left, y, right, y);
    svg += svg_text(left - 7, y + 4, "end", plot.y.label(tick), "tick");
  }
  for (const double tick : plot.x.ticks()) {
    const double x = plot.x(tick);
    svg += svg_line("axis", x, bottom, x, bottom + 4);
    svg += svg_text(x, bottom + 18, "middle", plot.x.label(tick), "tick");
  }
  svg += svg_line("axis", left, bottom, right, bottom);
  svg += svg_text((left + right) / 2, bottom + 36, "middle", x_label, "label");
  const double middle = (plot.y.to + bottom) / 2;
  return concat(svg, "<g transform=\"rotate(-90 14 ", pixels(middle), ")\">",
                svg_text(14, middle, "middle", y_label, "label"), "</g>\n");
}

std::string svg_chart(double width, double height, std::string_view title, std::string_view content,
                      std::string_view strips) {
  constexpr double kOfTitles = 1.1;  // their letters are larger and bold
  const std::string wide = concat("style=\"max-width:", pixels(width), "px\"");
  const std::string own =
      strips.empty() ? svg_text(8, 18, "start", shortened(title, (width - 16) / kOfTitles), "title")
                     : "";
  const std::string svg =
      concat("<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 ",
             pixels(width), " ", pixels(height), "\" ", wide, " role=\"img\" aria-label=\"",
             escape(title), "\">\n", own, content, "</svg>\n");
  if (strips.empty()) return svg;
  return concat("<div class=\"framed\" ", wide, ">\n<p class=\"title\">", escape(title), "</p>\n",
                strips, svg, "</div>\n");
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

std::string svg_file(const std::string& drawing) {
  const std::string own = concat("\n<style>\n", file_style_of_drawings(), "</style>\n",
                                 "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
  return std::string(drawing).insert(drawing.find('>') + 1, own);
}

namespace {

struct Colour {
  std::string_view name, light, dark;
};
constexpr std::size_t kCommonColours = 6;  // before those of series
// Colours of series (c0 …): Okabe and Ito's palette for all kinds of colour vision (2008), its
// yellow replaced by a brown that shows on white; lighter versions for the dark page.
constexpr Colour kPalette[] = {
    {"paper", "#ffffff", "#14181c"}, {"card", "#ffffff", "#1a1f24"}, {"ink", "#1c2126", "#e6eaee"},
    {"soft", "#5b6670", "#9aa6b1"},  {"rule", "#dde2e7", "#323a42"}, {"on", "#ffffff", "#0c1116"},
    {"c0", "#0072b2", "#4aa8e8"},    {"c1", "#d55e00", "#ff8a3d"},   {"c2", "#009e73", "#2fc79a"},
    {"c3", "#cc79a7", "#e39cc4"},    {"c4", "#e69f00", "#f4bd3f"},   {"c5", "#56b4e9", "#8fd0f7"},
    {"c6", "#7a5c3e", "#b8946c"},    {"c7", "#4d4d4d", "#c3c9cf"}};
static_assert(std::size(kPalette) == kCommonColours + kColours);

// In what a rule says, @NAME is a colour of the palette, and @series that of the series.
struct Rule {
  std::string_view parts, says;
};
constexpr Rule kRules[] = {
    {"text", "fill: @ink;"},
    {".title", "font-size: 14px; font-weight: 600;"},
    {".tick, .label", "fill: @soft;"},
    {".grid", "stroke: @rule; stroke-width: 1;"},
    {".axis", "stroke: @soft; stroke-width: 1;"},
    {".diagonal", "stroke: @soft; stroke-width: 1; stroke-dasharray: 3 4;"},
    {".line", "fill: none; stroke: @series; stroke-width: 2; stroke-linejoin: round;"},
    {".dashed", "stroke-dasharray: 6 4;"},
    {".band", "fill: @series; fill-opacity: .17; stroke: none;"},
    {".dot", "fill: @series; fill-opacity: .8;"},
    {".ring", "fill: @card; stroke: @series; stroke-width: 1.5;"},
    {".hover", "fill: none; pointer-events: all;"},
    {".bar, .cell", "fill: @series;"},
    {".value", "font-size: 13px;"},
    {".strong", "fill: @on; font-weight: 600;"}};

using Spell = std::function<std::string(const Colour&)>;

// One rule; `prefixes` stand before each of its parts. A colour is written as `spell` has it.
std::string written(const Rule& rule, const std::vector<std::string>& prefixes,
                    const std::string& series, const Spell& spell) {
  std::vector<std::string> selectors;
  for (const std::string& part : split(rule.parts, ','))
    for (const std::string& prefix : prefixes) selectors.push_back(prefix + trim(part));
  std::string says(rule.says);
  const auto put = [&](std::string_view name, const std::string& value) {
    const std::string word = concat("@", name, ";");
    for (std::size_t at = says.find(word); at != says.npos; at = says.find(word))
      says.replace(at, word.size(), value + ";");
  };
  put("series", series);
  for (const Colour& colour : kPalette) put(colour.name, spell(colour));
  return concat(join(selectors, ", "), " { ", says, " }\n");
}

std::string variables(std::string_view Colour::*value) {
  std::string css;
  for (const Colour& colour : kPalette) css += concat(" --", colour.name, ": ", colour.*value, ";");
  return css;
}

}  // namespace

std::string page_style_of_drawings() {
  std::string css = concat(":root { color-scheme: light dark;", variables(&Colour::light),
                           " }\n@media screen and (prefers-color-scheme: dark) { :root {",
                           variables(&Colour::dark), " } }\n");
  const Spell variable = [](const Colour& colour) { return concat("var(--", colour.name, ")"); };
  for (const Rule& rule : kRules) css += written(rule, {"svg "}, "currentColor", variable);
  for (std::size_t c = 0; c < kColours; ++c)
    css += concat("svg .c", c, " { color: var(--c", c, "); }\n");
  return css;
}

std::string file_style_of_drawings() {
  std::string css = "svg { font: 12px system-ui, \"Segoe UI\", Roboto, sans-serif; }\n";
  const Spell light = [](const Colour& colour) { return std::string(colour.light); };
  for (const Rule& rule : kRules) {
    if (rule.says.find("@series") == rule.says.npos) {
      css += written(rule, {"svg "}, "", light);
      continue;
    }
    for (std::size_t c = 0; c < kColours; ++c) {
      const std::string own = concat(".c", c);
      css += written(rule, {own + " ", own}, light(kPalette[kCommonColours + c]), light);
    }
  }
  return css;
}

}  // namespace coldframe::html
