#include "common/charts/files/latex_file.h"

#include <array>
#include <utility>
#include <vector>

#include "common/charts/page_data.h"
#include "common/text/text.h"

namespace coldframe::html {
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
    const Spelling* found = nullptr;
    for (const Spelling& one : kSpellings)
      if (html.starts_with(one.first)) {
        found = &one;
        break;
      }
    latex += found ? found->second : html.substr(0, 1);
    html.remove_prefix(found ? found->first.size() : 1);
  }
  return latex;
}

// Gives the text between `open` and `close` from `at` on, which moves behind it; nothing at the
// end.
std::string_view next(std::string_view text, std::size_t& at, std::string_view open,
                      std::string_view close) {
  at = std::min(text.find(open, at), text.size());
  if (at == text.size()) return {};
  const std::size_t begin = at + open.size();
  const std::size_t end = std::min(text.find(close, begin), text.size());
  at = std::min(end + close.size(), text.size());
  return text.substr(begin, end - begin);
}

// `class="num">0.93` or `>0.93`: the attributes of a cell, and what it says.
struct Cell {
  bool number;
  std::string latex;
};
std::vector<Cell> cells_of(std::string_view row, std::string_view tag) {
  const std::string open = concat("<", tag), close = concat("</", tag, ">");
  std::vector<Cell> cells;
  for (std::size_t at = 0;;) {
    const std::string_view cell = next(row, at, open, close);
    if (cell.empty()) return cells;
    const std::size_t begin = cell.find('>') + 1;
    cells.push_back({begin > 1, spelt(cell.substr(begin))});
  }
}

std::string line_of(const std::vector<Cell>& cells) {
  std::vector<std::string> words;
  for (const Cell& cell : cells) words.push_back(cell.latex);
  const std::string line = join(words, " & ");
  // A bracket behind the end of a line would be read as a distance.
  return concat("  ", line.starts_with('[') ? "{}" : "", line, " \\\\\n");
}

std::string latex_table(std::string_view table, const std::string& caption, int number) {
  std::size_t at = 0;
  const std::vector<Cell> header = cells_of(next(table, at, "<tr>", "</tr>"), "th");
  std::string columns, rows;
  for (const Cell& cell : header) columns += cell.number ? 'r' : 'l';
  for (;;) {
    const std::vector<Cell> row = cells_of(next(table, at, "<tr>", "</tr>"), "td");
    if (row.empty()) break;
    rows += line_of(row);
  }
  return concat(
      "\\begin{table}\n\\caption{", caption, "}\n\\label{tab:", number,
      "}\n\\centering\n\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}"
      "{!}{%\n\\begin{tabular}{",
      columns, "}\n  \\toprule\n", line_of(header), "  \\midrule\n", rows,
      "  \\bottomrule\n\\end{tabular}}\n\\end{table}\n");
}

}  // namespace

std::string latex_tables(std::string_view page) {
  std::string latex = "% \\usepackage{booktabs,graphicx}\n";
  int number = 0;
  for (std::size_t section = page.find("<section"); section != std::string_view::npos;) {
    const std::size_t end = page.find("<section", section + 1);
    const std::string_view text = page.substr(section, end - section);
    std::size_t at = 0;
    const std::string caption = spelt(next(text, at, "<h2>", "</h2>"));
    // The script's tables list every exam, too many for a paper.
    while (text.find(kDataTable) == std::string_view::npos) {
      const std::string_view table = next(text, at, "<table", "</table>");
      if (table.empty()) break;
      latex += concat("\n", latex_table(table, caption, ++number));
    }
    section = end;
  }
  return latex;
}

}  // namespace coldframe::html
