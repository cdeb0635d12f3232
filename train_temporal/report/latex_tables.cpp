#include "train_temporal/report/latex_tables.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/charts/data_table.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

using Spelling = std::pair<std::string_view, std::string_view>;

// Pages have these for what LaTeX reads as commands, and for letters that its fonts lack.
constexpr std::array kSpellings = {
    Spelling{"&amp;", "\\&"},
    Spelling{"&lt;", "\\textless{}"},
    Spelling{"&gt;", "\\textgreater{}"},
    Spelling{"&quot;", "''"},
    Spelling{"&#39;", "'"},
    Spelling{"\\", "\\textbackslash{}"},
    Spelling{"{", "\\{"},
    Spelling{"}", "\\}"},
    Spelling{"%", "\\%"},
    Spelling{"$", "\\$"},
    Spelling{"#", "\\#"},
    Spelling{"_", "\\_"},
    Spelling{"^", "\\textasciicircum{}"},
    Spelling{"~", "\\textasciitilde{}"},
    Spelling{"\n", " "},
    Spelling{"−", "$-$"},
    Spelling{"≥", "$\\geq$"},
    Spelling{"≤", "$\\leq$"},
    Spelling{"²", "\\textsuperscript{2}"},
};

// "-0.1", "[-0.1": a sign, which is longer than a hyphen.
bool starts_negative(std::string_view text, const std::string& before) {
  const bool number = text.size() > 1 && text[0] == '-' && text[1] >= '0' && text[1] <= '9';
  return number && (before.empty() || before.ends_with(' ') || before.ends_with('['));
}

std::string spelt(std::string_view html) {
  std::string latex;
  while (!html.empty()) {
    if (starts_negative(html, latex)) {
      latex += "$-$";
      html.remove_prefix(1);
      continue;
    }
    const auto* found = std::ranges::find_if(
        kSpellings, [&](const Spelling& one) { return html.starts_with(one.first); });
    const bool any = found != kSpellings.end();
    latex += any ? found->second : html.substr(0, 1);
    html.remove_prefix(any ? found->first.size() : 1);
  }
  return latex;
}

// <TAG ATTRIBUTES>CONTENT</TAG>, in which there is no other of this tag, and all behind it.
struct Element {
  std::string_view attributes, content, behind;
};
std::vector<Element> elements(std::string_view html, const std::string& tag) {
  const std::string open = "<" + tag, close = concat("</", tag, ">");
  std::vector<Element> found;
  for (std::size_t at = html.find(open); at != html.npos; at = html.find(open, at + 1)) {
    const std::size_t attributes = at + open.size(), begin = html.find('>', at) + 1;
    if (html[attributes] != '>' && html[attributes] != ' ') continue;  // of a longer tag
    const std::size_t end = html.find(close, begin);
    found.push_back({html.substr(attributes, begin - attributes), html.substr(begin, end - begin),
                     html.substr(end + close.size())});
  }
  return found;
}

bool has_class(const Element& element, std::string_view name) {
  return element.attributes.find(concat("class=\"", name)) != std::string_view::npos;
}

std::string line_of(const std::vector<Element>& cells) {
  std::vector<std::string> words;
  for (const Element& cell : cells) words.push_back(spelt(cell.content));
  const std::string line = join(words, " & ");
  // A bracket or a star behind the end of a line would be read as its option.
  return concat("  ", line.starts_with('[') || line.starts_with('*') ? "{}" : "", line, " \\\\\n");
}

std::string latex_table(const Element& table, const std::string& caption, int number) {
  const std::vector<Element> header = elements(table.content, "th");
  std::string columns, rows, notes;
  for (const Element& cell : header) columns += has_class(cell, "num") ? 'r' : 'l';
  for (const Element& row : elements(table.content, "tr"))
    if (const auto cells = elements(row.content, "td"); !cells.empty()) rows += line_of(cells);
  for (const Element& below : elements(table.behind.substr(0, table.behind.find("<table")), "p"))
    if (has_class(below, "note"))
      notes += concat("\\par\\footnotesize ", spelt(below.content), "\n");
  return concat(
      "\\begin{table}\n\\caption{", caption, "}\n\\label{tab:", number,
      "}\n\\centering\n\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}"
      "{!}{%\n\\begin{tabular}{",
      columns, "}\n  \\toprule\n", line_of(header), "  \\midrule\n", rows,
      "  \\bottomrule\n\\end{tabular}}\n", notes, "\\end{table}\n");
}

}  // namespace

std::string latex_tables(std::string_view page) {
  std::string latex = "% \\usepackage{booktabs,graphicx}\n";
  int number = 0;
  for (const Element& section : elements(page, "section")) {
    if (section.content.find(html::kDataTable) != section.content.npos)
      continue;  // too long for a paper
    const std::string caption = spelt(elements(section.content, "h2").front().content);
    for (const Element& table : elements(section.content, "table"))
      latex += concat("\n", latex_table(table, caption, ++number));
  }
  return latex;
}

}  // namespace coldframe::temporal
