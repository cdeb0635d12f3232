#include "common/files/csv.h"

#include <algorithm>
#include <cstdint>
#include <unordered_set>
#include <utility>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

constexpr std::uint64_t kMaxCsvBytes = 1ull << 30;
constexpr std::size_t kMaxRecordBytes = 4u << 20;
constexpr std::size_t kExcerpt = 60;  // letters
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

// What a spreadsheet would compute or take for a number: OWASP, "CSV Injection".
bool begins_as_formula(std::string_view value) {
  return !value.empty() && std::string_view("=+-@\t\r").find(value[0]) != std::string_view::npos;
}

// The value of a field that with_guard() may have written.
std::string without_guard(std::string value) {
  const std::size_t mark = value.find_first_not_of('\'');
  if (mark != 0 && mark != std::string::npos && begins_as_formula(value.substr(mark, 1)))
    value.erase(0, 1);
  return value;
}

// One apostrophe in front of what would be a formula, and of what already has apostrophes there, so
// that it reads back as it was. Numbers stay.
std::string with_guard(std::string_view value) {
  double number = 0;
  const std::size_t mark = std::min(value.find_first_not_of('\''), value.size());
  const bool formula = begins_as_formula(value.substr(mark));
  const bool guard = formula && (mark > 0 || !parse_double(value, number));
  return concat(guard ? "'" : "", value);
}

// Reads one record after another; knows on which line it is.
class Scanner {
 public:
  Scanner(std::string_view text, const std::string& name, char separator)
      : text_(text), name_(name), separator_(separator) {}

  bool at_end() const { return at_ >= text_.size(); }
  std::size_t line() const { return line_; }

  std::vector<std::string> record() {
    std::vector<std::string> fields;
    begin_ = at_;
    begin_line_ = line_;
    do {
      fields.push_back(without_guard(field()));
      check_length();
    } while (take(separator_));
    end_of_line();
    return fields;
  }

  [[noreturn]] void refuse(std::size_t line, const std::string& reason) const {
    throw DataError(concat(name_, ", line ", line, ": ", reason));
  }

 private:
  bool take(char c) {
    if (at_end() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  // A file that is no table may be one endless line.
  void check_length() const {
    if (at_ - begin_ <= kMaxRecordBytes) return;
    const std::string_view start = text_.substr(begin_, 2 * kExcerpt);
    const std::string shown = printable(start.substr(0, whole_code_points(start)));
    refuse(begin_line_, concat("it has more than ", human_bytes(kMaxRecordBytes),
                               " and begins with '", without_middle(shown, kExcerpt),
                               "'; expected a table of which each line is one row"));
  }

  bool at_line_end() const { return at_end() || text_[at_] == '\n' || text_[at_] == '\r'; }

  void end_of_line() {
    const bool carriage_return = take('\r');
    const bool line_feed = take('\n');
    if (carriage_return || line_feed) ++line_;
  }

  std::string field() {
    if (take('"')) return quoted_field();
    const std::size_t start = at_;
    while (!at_line_end() && text_[at_] != separator_) {
      if (text_[at_] == '"') {
        refuse(line_,
               "a quote in the middle of a field; quote the whole field and double the "
               "quotes inside it");
      }
      ++at_;
      check_length();
    }
    return std::string(text_.substr(start, at_ - start));
  }

  std::string quoted_field() {
    const std::size_t opened = line_;
    std::string value;
    for (;;) {
      if (at_end()) refuse(opened, "the quote that opens here is never closed");
      const char c = text_[at_++];
      check_length();
      if (c == '"') {
        if (!take('"')) break;
      }
      if (c == '\n') ++line_;
      value += c;
    }
    if (!at_line_end() && text_[at_] != separator_) {
      refuse(line_, "text after a closing quote; expected a separator or the end of the line");
    }
    return value;
  }

  std::string_view text_;
  const std::string& name_;
  char separator_;
  std::size_t at_ = 0, line_ = 1;
  std::size_t begin_ = 0, begin_line_ = 1;  // of the record
};

void check_header(const CsvTable& table, const Scanner& scanner, std::size_t line) {
  std::unordered_set<std::string_view> titles;
  for (std::size_t i = 0; i < table.header.size(); ++i) {
    const std::string& title = table.header[i];
    if (title.empty()) {
      scanner.refuse(line, concat("column ", i + 1, " of the header has no name; give it one"));
    }
    if (!titles.insert(title).second) {
      scanner.refuse(line, concat("the column '", title, "' occurs twice in the header"));
    }
  }
}

bool is_blank(const std::vector<std::string>& fields) {
  return fields.size() == 1 && trim(fields[0]).empty();
}

// What stands between the fields of the first line, outside quotes; a comma if nothing does.
std::string separators_of_header(std::string_view text) {
  const auto start = text.find_first_not_of(" \r\n");
  std::string found;
  bool quoted = false;
  for (std::size_t at = std::min(start, text.size()); at < text.size(); ++at) {
    const char c = text[at];
    if (c == '"') quoted = !quoted;
    if (quoted) continue;
    if (c == '\n' || c == '\r') break;
    if ((c == ',' || c == ';' || c == '\t') && found.find(c) == std::string::npos) found += c;
  }
  return found.empty() ? "," : found;
}

CsvTable parse_with(std::string_view text, std::string name, char separator) {
  CsvTable table;
  table.name = std::move(name);
  Scanner scanner(text, table.name, separator);
  while (!scanner.at_end()) {
    const std::size_t line = scanner.line();
    std::vector<std::string> fields = scanner.record();
    if (table.header.empty()) {
      if (is_blank(fields)) continue;
      for (std::string& title : fields) title = trim(title);
      table.header = std::move(fields);
      check_header(table, scanner, line);
      continue;
    }
    if (is_blank(fields) && table.header.size() > 1) continue;
    if (fields.size() != table.header.size()) {
      scanner.refuse(line, concat("it has ", plural(fields.size(), "field"), ", the header has ",
                                  table.header.size()));
    }
    table.rows.push_back(std::move(fields));
    table.lines.push_back(line);
  }
  if (table.header.empty()) {
    throw DataError(concat(table.name, " is empty; expected a header line with column names"));
  }
  return table;
}

// The one separator with which every line has as many fields as the header.
char decide_separator(std::string_view text, const std::string& name,
                      const std::string& candidates) {
  std::string fitting;
  for (const char separator : candidates) {
    try {
      parse_with(text, name, separator);
      fitting += separator;
    } catch (const DataError&) {
    }
  }
  if (fitting.size() == 1) return fitting[0];
  if (fitting.empty()) return candidates.find(',') == std::string::npos ? candidates[0] : ',';
  throw DataError(concat(name, ": its header holds several of comma, semicolon and tab, and each ",
                         "may be what separates the columns; save it with commas, or quote the "
                         "names of columns"));
}

// "-1,5": one comma between digits.
bool has_decimal_comma(std::string_view value) {
  const auto comma = value.find(',');
  if (comma == std::string_view::npos) return false;
  const auto digits = [](std::string_view part) {
    return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
  };
  const std::string_view whole = value.substr(value.starts_with('-') ? 1 : 0);
  return digits(whole.substr(0, whole.find(','))) && digits(value.substr(comma + 1));
}

// Columns of numbers, some with a comma, become numbers as others write them.
void take_decimal_commas(CsvTable& table) {
  for (std::size_t column = 0; column < table.header.size(); ++column) {
    bool any = false, numbers = true, thousands = true;
    for (const auto& row : table.rows) {
      const std::string value = trim(row[column]);
      double number = 0;
      const bool decimal = has_decimal_comma(value);
      numbers = numbers && (decimal || is_missing(value) ||
                            (parse_double(value, number) && value.find('.') == std::string::npos));
      if (decimal) thousands = thousands && value.size() - value.find(',') == 4;
      any = any || decimal;
    }
    if (!any || !numbers) continue;
    if (thousands)
      throw DataError(concat(table.name, ": column '", table.header[column],
                             "' holds numbers such as 1,234 alone, with a decimal comma or in "
                             "thousands; write them with a decimal point"));
    for (auto& row : table.rows) std::replace(row[column].begin(), row[column].end(), ',', '.');
  }
}

}  // namespace

std::optional<std::size_t> CsvTable::column(std::string_view title) const {
  const auto found = std::find(header.begin(), header.end(), title);
  if (found == header.end()) return std::nullopt;
  return static_cast<std::size_t>(found - header.begin());
}

std::size_t CsvTable::require_column(std::string_view title) const {
  if (const auto found = column(title)) return *found;
  throw DataError(concat(name, ": no column '", title, "'; the columns are: ", join(header, ", ")));
}

CsvTable read_csv(const std::filesystem::path& path) {
  return parse_csv(read_text_file(path, kMaxCsvBytes), path.string());
}

CsvTable parse_csv(std::string_view text, std::string name) {
  if (text.starts_with("PK\x03\x04") || text.starts_with("\xD0\xCF\x11\xE0"))
    throw DataError(concat(name,
                           " is an Excel file or an archive; open it and save it as CSV "
                           "(Excel: 'CSV UTF-8')"));
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  if (!is_valid_utf8(text)) {
    throw DataError(concat(name, " is not UTF-8 text; save it as 'CSV UTF-8'"));
  }
  if (text.find('\0') != std::string_view::npos) {
    throw DataError(concat(name, " holds a NUL byte; expected CSV text"));
  }
  const std::string candidates = separators_of_header(text);
  const char separator =
      candidates.size() > 1 ? decide_separator(text, name, candidates) : candidates[0];
  CsvTable table = parse_with(text, std::move(name), separator);
  if (separator != ',') take_decimal_commas(table);
  return table;
}

std::string csv_field(std::string_view text) {
  const std::string value = with_guard(text);
  const bool spaced = !value.empty() && (value.front() == ' ' || value.back() == ' ');
  if (!spaced && value.find_first_of(",\"\r\n") == std::string::npos) return value;
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + '"';
}

std::string csv_row(const std::vector<std::string>& fields) {
  std::string row;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) row += ',';
    row += csv_field(fields[i]);
  }
  // A lone empty field would read as a blank line.
  if (fields.size() == 1 && fields[0].empty()) row = "\"\"";
  return row + '\n';
}

}  // namespace coldframe
