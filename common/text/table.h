// Text in columns, for the terminal.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe {

// Every byte of UTF-8 but the continuation bytes starts a letter (a code point: "×" is one).
inline bool starts_letter(char byte) {
  return (static_cast<unsigned char>(byte) & 0xc0) != 0x80;
}

std::size_t letters(std::string_view text);

// Appends spaces up to `width` letters; longer text stays as it is.
std::string padded(std::string_view text, std::size_t width);

// At most `most` letters (at least 3), the middle left out, since names differ at their ends. Text
// that is not UTF-8 stays as it is.
std::string without_middle(const std::string& text, std::size_t most);

// A line for each row, its columns aligned and two spaces apart, no spaces at its end. Rows may be
// of different lengths. What they say becomes printable().
using TextRows = std::vector<std::vector<std::string>>;
void write_table(const TextRows& rows, std::ostream& out);
std::string table_text(const TextRows& rows);

}  // namespace coldframe
