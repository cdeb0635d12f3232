#include "common/charts/html.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <ios>
#include <utility>

#include "common/charts/page_data.h"
#include "common/charts/style.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

// In a narrow window the cells of a row stand below each other where columns are more than the
// first, and fewer than the second.
constexpr std::size_t kMostNarrow = 2, kMostStacked = 8;

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
std::string cell(std::string_view tag, bool numeric, std::string_view text,
                 std::string_view link = "") {
  constexpr std::size_t kUnbroken = 30;  // "-12345.67 [-23456.78, 1234.56]"
  const std::string_view style = text == "–" ? numeric ? " class=\"num none\">" : " class=\"none\">"
                                 : !numeric  ? ">"
                                 : text.size() <= kUnbroken ? " class=\"num\">"
                                                            : " class=\"num long\">";
  const std::string content =
      link.empty() ? escape(text) : concat("<a href=\"", escape(link), "\">", escape(text), "</a>");
  return concat("<", tag, style, content, "</", tag, ">");
}

// As a page's policy names a script.
std::string digest_of(std::string_view script) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(script.data()), script.size(), digest.data());
  return to_base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

// A string of CSS, of which nothing but letters, digits and spaces stays as it is.
std::string css_string(std::string_view text) {
  std::string string = "'";
  for (const char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (std::isalnum(code) != 0 || c == ' ' || code >= 0x80)
      string += c;
    else if (code >= 0x20)
      string += concat("\\", std::hex, static_cast<int>(code), " ");
  }
  return string + "'";
}

// A narrow window shows the cells of a row below each other, with the names of their columns.
std::string stacked_style(const std::vector<std::string>& header) {
  if (header.size() <= kMostNarrow || header.size() > kMostStacked) return "";
  std::string style = " class=\"stacked\" style=\"";
  for (std::size_t c = 1; c < header.size(); ++c)
    style += concat("--h", c + 1, ":", escape(css_string(header[c])), ";");
  return style + "\"";
}

// JSON that nothing in a page can end or open a tag with.
std::string inert(const Json& json) {
  std::string text;
  for (const char c : json.dump(-1, ' ', true, Json::error_handler_t::replace)) {
    if (c == '<' || c == '>' || c == '&')
      text += c == '<' ? "\\u003c" : c == '>' ? "\\u003e" : "\\u0026";
    else
      text += c;
  }
  return text;
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

std::string to_base64(std::string_view bytes) {
  std::string text((bytes.size() + 2) / 3 * 4 + 1, '\0');  // one behind for its zero
  const int length = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data()),
                                     reinterpret_cast<const unsigned char*>(bytes.data()),
                                     static_cast<int>(bytes.size()));
  text.resize(static_cast<std::size_t>(length));
  return text;
}

std::string table(const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows,
                  const std::vector<std::string>& links) {
  std::vector<bool> numeric;
  for (std::size_t c = 0; c < header.size(); ++c) numeric.push_back(is_number_column(rows, c));
  std::string html = concat("<div class=\"scroll\"><table", stacked_style(header), "><thead><tr>");
  for (std::size_t c = 0; c < header.size(); ++c) html += cell("th", numeric[c], header[c]);
  html += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    html += "<tr>";
    for (std::size_t c = 0; c < header.size(); ++c)
      html += cell("td", numeric[c], c < rows[r].size() ? rows[r][c] : "",
                   c == 0 && r < links.size() ? links[r] : "");
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

std::string with_data(std::string_view kind, std::string_view id, std::string_view html,
                      const Json& data) {
  return concat("<div class=\"", kind, "\"", id.empty() ? "" : concat(" id=\"", id, "\""), ">\n",
                html, "<script type=\"application/json\">", inert(data), "</script>\n</div>\n");
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
  // Text of others is escaped, so that this is ours: data, which the script makes tables of.
  const bool runs = body_.find("<script ") != std::string::npos;
  std::string page =
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      // The browser itself sees to it that the page asks nobody for anything, and that no script
      // runs but ours.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:";
  page += runs ? concat("; script-src 'sha256-", digest_of(kScript), "'\"/>\n") : "\"/>\n";
  page += concat("<title>", escape(title_), "</title>\n<style>", kStyle, "</style>\n</head>\n");
  page += concat("<body>\n<header><h1>", escape(title_), "</h1>\n");
  if (!subtitle_.empty()) page += concat("<p class=\"subtitle\">", escape(subtitle_), "</p>\n");
  page += "</header>\n";
  if (sections_ > 1) page += concat("<nav>", contents_, "</nav>\n");
  page += concat("<main>\n", body_, "</main>\n");
  if (runs) page += concat("<script>", kScript, "</script>\n");
  return page + "</body>\n</html>\n";
}

}  // namespace coldframe::html
