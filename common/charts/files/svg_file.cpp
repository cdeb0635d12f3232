#include "common/charts/files/for_paper.h"

#include <vector>

#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::html {
namespace {

// The style says first how a variable looks on white.
std::string value_of(std::string_view variable) {
  const std::size_t at = kStyle.find(concat(variable, ":")) + variable.size() + 1;
  return trim(kStyle.substr(at, kStyle.find(';', at) - at));
}

// "svg .line { stroke: currentColor; … }" for parts of one colour, as in
// ".c2 .line, .c2.line { stroke: #009e73; … }".
std::string of_colour(std::string rule, std::size_t colour) {
  constexpr std::string_view kCurrent = "currentColor";
  const std::string own = concat(".c", colour), value = value_of(concat("--c", colour));
  for (std::size_t at = rule.find(kCurrent); at != rule.npos; at = rule.find(kCurrent, at))
    rule.replace(at, kCurrent.size(), value);
  const std::size_t brace = rule.find('{');
  std::vector<std::string> selectors;
  for (const std::string& each : split(rule.substr(0, brace), ',')) {
    const std::string part = trim(each).substr(4);  // behind "svg "
    selectors.push_back(concat(own, " ", part, ", ", own, part));
  }
  return concat(join(selectors, ", "), " ", rule.substr(brace), "\n");
}

// The page's rules for drawings.
std::string make_style() {
  std::string style = "svg { font: 12px system-ui, \"Segoe UI\", Roboto, sans-serif; }\n";
  for (std::string rule : split(kStyle, '\n')) {
    const bool drawn = rule.starts_with("svg .") || rule.starts_with("svg text");
    const bool sets_current = rule.find("{ color:") != rule.npos;
    if (!drawn || sets_current || rule.find(":hover") != rule.npos) continue;
    for (std::size_t at = rule.find("var("); at != rule.npos; at = rule.find("var(", at)) {
      const std::size_t end = rule.find(')', at);
      rule.replace(at, end + 1 - at, value_of(rule.substr(at + 4, end - at - 4)));
    }
    const bool coloured = rule.find("currentColor") != rule.npos;
    for (std::size_t colour = 0; coloured && colour < kColours; ++colour)
      style += of_colour(rule, colour);
    if (!coloured) style += rule + "\n";
  }
  return style;
}

}  // namespace

std::string svg_file(const std::string& drawing) {
  static const std::string kOwn = concat("\n<style>\n", make_style(), "</style>\n",
                                         "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>");
  return std::string(drawing).insert(drawing.find('>') + 1, kOwn);
}

}  // namespace coldframe::html
