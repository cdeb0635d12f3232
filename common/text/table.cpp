#include "common/text/table.h"

#include <algorithm>
#include <sstream>

#include "common/text/text.h"

namespace coldframe {
namespace {

constexpr std::size_t kOutputBlock = 1u << 16;

std::vector<std::size_t> column_widths(const TextRows& rows) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], letters(printable(row[i])));
  }
  return widths;
}

}  // namespace

std::size_t letters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), starts_letter));
}

std::string padded(std::string_view text, std::size_t width) {
  std::string result(text);
  result.append(width - std::min(width, letters(text)), ' ');
  return result;
}

std::string without_middle(const std::string& text, std::size_t most) {
  if (letters(text) <= most || !is_valid_utf8(text)) return text;
  std::vector<std::size_t> starts;
  for (std::size_t i = 0; i < text.size(); ++i)
    if (starts_letter(text[i])) starts.push_back(i);
  const std::size_t head = most / 3, tail = most - head - 1;
  return concat(text.substr(0, starts[head]), "…", text.substr(starts[starts.size() - tail]));
}

void write_table(const TextRows& rows, std::ostream& out) {
  const std::vector<std::size_t> widths = column_widths(rows);
  std::string block;
  for (const std::vector<std::string>& row : rows) {
    const std::size_t start = block.size();
    for (std::size_t i = 0; i < row.size(); ++i) {
      block += padded(printable(row[i]), widths[i] + 2);
    }
    while (block.size() > start && block.back() == ' ') block.pop_back();
    block += '\n';
    if (block.size() < kOutputBlock && &row != &rows.back()) continue;
    out << block;
    block.clear();
  }
}

std::string table_text(const TextRows& rows) {
  std::ostringstream out;
  write_table(rows, out);
  return out.str();
}

}  // namespace coldframe
