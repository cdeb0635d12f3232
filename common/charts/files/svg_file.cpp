#include "common/charts/files/svg_file.h"

#include "common/charts/style.h"
#include "common/text/text.h"

namespace coldframe::html {
namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
  for (std::size_t at = text.find(what); at != std::string::npos;
       at = text.find(what, at + by.size()))
    text.replace(at, what.size(), by);
}

// The style says first how a variable looks on white.
std::string value_of(std::string_view variable) {
  const std::size_t at = kStyle.find(concat(variable, ":")) + variable.size() + 1;
  return trim(kStyle.substr(at, kStyle.find(';', at) - at));
}

// The rule for the drawing's parts of one colour: ".c2 .line, .line.c2 { … }".
std::string of_colour(const std::vector<std::string>& selectors, std::string rule, int colour) {
  const std::string own = concat(".c", colour);
  std::vector<std::string> with;
  for (const std::string& selector : selectors)
    with.push_back(concat(own, " ", selector, ", ", selector, own));
  replace_all(rule, "var(--c)", value_of(concat("--c", colour)));
  return join(with, ", ") + " " + rule + "\n";
}

std::string make_style() {
  std::string style = "svg { font: 12px system-ui, \"Segoe UI\", Roboto, sans-serif; }\n";
  for (const std::string& line : split(kStyle, '\n')) {
    const bool drawn = line.starts_with("svg .") || line.starts_with("svg text");
    if (!drawn || line.find(":hover") != std::string::npos) continue;
    const std::size_t brace = line.find('{');
    std::string rule = line.substr(brace);
    replace_all(rule, "transparent", "none");
    for (const char* variable : {"--ink", "--soft", "--rule", "--card", "--on"})
      replace_all(rule, concat("var(", variable, ")"), value_of(variable));
    std::vector<std::string> selectors;
    for (const std::string& selector : split(line.substr(0, brace), ','))
      selectors.push_back(trim(selector).substr(4));  // behind "svg "
    if (rule.find("var(--c)") == std::string::npos) {
      style += join(selectors, ", ") + " " + rule + "\n";
      continue;
    }
    for (int colour = 0; colour < 8; ++colour) style += of_colour(selectors, rule, colour);
  }
  return style;
}

}  // namespace

std::vector<std::string> svg_files(std::string_view page) {
  static const std::string kOwnStyle = make_style();
  constexpr std::string_view kEnd = "</svg>";
  std::vector<std::string> files;
  for (std::size_t at = page.find("<svg "); at != std::string_view::npos;
       at = page.find("<svg ", at + 1)) {
    const std::size_t end = page.find(kEnd, at) + kEnd.size();
    std::string drawing(page.substr(at, end - at));
    drawing.insert(drawing.find('>') + 1,
                   concat("\n<style>\n", kOwnStyle,
                          "</style>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>"));
    files.push_back(drawing + "\n");
  }
  return files;
}

}  // namespace coldframe::html
