#include "common/charts/html.h"

#include <algorithm>
#include <utility>

#include "common/charts/style.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// "0.91", "-3", "12 %", "0.91 ± 0.02": what starts like a number.
bool looks_numeric(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  return !text.empty() && (is_digit(text[0]) || text == "nan" || text == "inf");
}

bool is_number_column(const std::vector<std::vector<std::string>>& rows, std::size_t column) {
  bool any = false;
  for (const auto& row : rows) {
    if (column >= row.size() || row[column].empty() || row[column] == "–") continue;
    if (!looks_numeric(row[column])) return false;
    any = true;
  }
  return any;
}

// A number with its interval is not broken; one with a reason behind it is, so that the column
// stays as wide as others.
std::string cell(std::string_view tag, bool numeric, std::string_view text) {
  constexpr std::size_t kUnbroken = 30;  // "-12345.67 [-23456.78, 1234.56]"
  const std::string_view style = !numeric                   ? ">"
                                 : text.size() <= kUnbroken ? " class=\"num\">"
                                                            : " class=\"num long\">";
  return concat("<", tag, style, escape(text), "</", tag, ">");
}

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        // Other control characters are not allowed in a page, not even escaped.
        if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t') escaped += c;
    }
  }
  return escaped;
}

std::string table(const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows) {
  std::vector<bool> numeric;
  for (std::size_t c = 0; c < header.size(); ++c) numeric.push_back(is_number_column(rows, c));
  std::string html = "<div class=\"scroll\"><table><thead><tr>";
  for (std::size_t c = 0; c < header.size(); ++c) html += cell("th", numeric[c], header[c]);
  html += "</tr></thead><tbody>\n";
  for (const auto& row : rows) {
    html += "<tr>";
    for (std::size_t c = 0; c < header.size(); ++c) {
      html += cell("td", numeric[c], c < row.size() ? row[c] : "");
    }
    html += "</tr>\n";
  }
  return html + "</tbody></table></div>\n";
}

std::string key_values(const std::vector<std::pair<std::string, std::string>>& pairs) {
  std::string html = "<dl>\n";
  for (const auto& [key, value] : pairs) {
    html += "<dt>" + escape(key) + "</dt><dd>" + escape(value) + "</dd>\n";
  }
  return html + "</dl>\n";
}

Page::Page(std::string title, std::string subtitle)
    : title_(std::move(title)), subtitle_(std::move(subtitle)) {}

void Page::section(std::string_view heading, std::string_view body) {
  ++sections_;
  contents_ += concat("<a href=\"#s", sections_, "\">", escape(heading), "</a>\n");
  body_ += concat("<section id=\"s", sections_, "\"><h2>", escape(heading), "</h2>\n", body,
                  "</section>\n");
}

std::string Page::finish() const {
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      // The browser itself sees to it that the page asks nobody for anything.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:\"/>\n";
  page += concat("<title>", escape(title_), "</title>\n<style>", kStyle, "</style>\n</head>\n");
  page += concat("<body>\n<header><h1>", escape(title_), "</h1>\n");
  if (!subtitle_.empty()) page += concat("<p class=\"subtitle\">", escape(subtitle_), "</p>\n");
  page += "</header>\n";
  if (sections_ > 1) page += concat("<nav>", contents_, "</nav>\n");
  return page + concat("<main>\n", body_, "</main>\n</body>\n</html>\n");
}

}  // namespace coldframe::html
