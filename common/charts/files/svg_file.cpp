#include "common/charts/files/for_paper.h"

#include "common/charts/html.h"
#include "common/text/text.h"

namespace coldframe::html {
namespace {

// The style says first how a variable looks on white.
std::string value_of(std::string_view variable) {
  const std::size_t at = kStyle.find(concat(variable, ":")) + variable.size() + 1;
  return trim(kStyle.substr(at, kStyle.find(';', at) - at));
}

// The page's rules for drawings.
std::string make_style() {
  std::string style = "svg { font: 12px system-ui, \"Segoe UI\", Roboto, sans-serif; }\n";
  for (std::string rule : split(kStyle, '\n')) {
    const bool drawn = rule.starts_with("svg .") || rule.starts_with("svg text");
    if (!drawn || rule.find(":hover") != rule.npos) continue;
    for (std::size_t at = rule.find("var("); at != rule.npos; at = rule.find("var(", at)) {
      const std::size_t end = rule.find(')', at);
      rule.replace(at, end + 1 - at, value_of(rule.substr(at + 4, end - at - 4)));
    }
    style += rule + "\n";
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
