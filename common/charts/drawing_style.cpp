#include "common/charts/drawing_style.h"

#include <functional>
#include <iterator>
#include <string_view>
#include <vector>

#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::html {
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
