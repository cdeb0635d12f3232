#include "train_temporal/report/latex_tables.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

using Spelling = std::pair<std::string_view, std::string_view>;

// For what LaTeX reads as commands, and for letters that its fonts lack.
constexpr std::array kSpellings = {
    Spelling{"&", "\\&"},
    Spelling{"<", "\\textless{}"},
    Spelling{">", "\\textgreater{}"},
    Spelling{"\"", "''"},
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
    Spelling{"\t", " "},
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

std::string spelt(std::string_view text) {
  std::string latex;
  while (!text.empty()) {
    if (starts_negative(text, latex)) {
      latex += "$-$";
      text.remove_prefix(1);
      continue;
    }
    const auto* found = std::ranges::find_if(
        kSpellings, [&](const Spelling& one) { return text.starts_with(one.first); });
    const bool any = found != kSpellings.end();
    const bool control = !any && static_cast<unsigned char>(text[0]) < ' ';
    latex += any ? found->second : text.substr(0, control ? 0 : 1);
    text.remove_prefix(any ? found->first.size() : 1);
  }
  return latex;
}

std::string line_of(const html::Row& cells) {
  std::vector<std::string> words;
  for (const std::string& cell : cells) words.push_back(spelt(cell));
  const std::string line = join(words, " & ");
  // A bracket or a star behind the end of a line would be read as its option.
  return concat("  ", line.starts_with('[') || line.starts_with('*') ? "{}" : "", line, " \\\\\n");
}

std::string latex_table(const html::Table& table, const std::string& caption, std::size_t number) {
  std::string columns, rows, notes;
  for (const bool numeric : table.numeric) columns += numeric ? 'r' : 'l';
  for (const html::Row& row : table.rows) rows += line_of(row);
  for (const std::string& note : table.notes)
    notes += concat("\\par\\footnotesize ", spelt(note), "\n");
  return concat(
      "\\begin{table}\n\\caption{", spelt(caption), "}\n\\label{tab:", number,
      "}\n\\centering\n\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}"
      "{!}{%\n\\begin{tabular}{",
      columns, "}\n  \\toprule\n", line_of(table.header), "  \\midrule\n", rows,
      "  \\bottomrule\n\\end{tabular}}\n", notes, "\\end{table}\n");
}

}  // namespace

std::string latex_tables(const html::Page& page) {
  std::string latex = "% \\usepackage{booktabs,graphicx}\n";
  std::size_t number = 0;
  for (const auto& [heading, table] : page.tables())
    latex += concat("\n", latex_table(table, heading, ++number));
  return latex;
}

}  // namespace coldframe::temporal
