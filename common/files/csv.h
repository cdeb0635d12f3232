// CSV as RFC 4180 has it: quoted fields, doubled quotes, CRLF or LF, an optional UTF-8 byte-order
// mark. Semicolons or tabs may replace the commas; numbers may then have decimal commas.
//
// A spreadsheet computes a field that begins with =, +, -, @, a tab or a carriage return. Unless it
// is a number, such a field is written with an apostrophe in front, and read without it.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe {

struct CsvTable {
  std::string name;  // for messages: usually the path
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;  // every row has header.size() fields
  std::vector<std::size_t> lines;              // the 1-based line on which each row starts

  std::optional<std::size_t> column(std::string_view title) const;
  std::size_t require_column(
      std::string_view title) const;  // DataError listing the columns there are
};

// DataError: unreadable, empty, not UTF-8, duplicate or empty column names, a ragged row, a row of
// more than 4 MiB, a quote that is never closed; the message names the line. Also an Excel file, a
// header that can be taken apart in two ways, and a column in which commas may be decimal or part
// thousands. Decimal commas become points.
CsvTable read_csv(const std::filesystem::path& path);
CsvTable parse_csv(std::string_view text, std::string name);

// One field as CSV wants it, guarded and quoted only when it must be; and a row of fields with its
// line end.
std::string csv_field(std::string_view text);
std::string csv_row(const std::vector<std::string>& fields);

}  // namespace coldframe
