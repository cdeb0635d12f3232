#include "common/charts/html.h"

#include <openssl/evp.h>
#include <openssl/sha.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

// In a narrow window the cells of a row stand below each other where columns are more than the
// first, and fewer than the second.
constexpr std::size_t kMaxNarrow = 2, kMaxStacked = 8;

constexpr std::pair<char, std::string_view> kEscapes[] = {
    {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'"', "&quot;"}, {'\'', "&#39;"}};

// "0.91", "-3", "−3", "12 %", "0.91 ± 0.02": what starts like a number.
bool looks_numeric(std::string_view text) {
  for (const std::string_view sign : {"-", "−", "+"})
    if (text.starts_with(sign)) {
      text.remove_prefix(sign.size());
      break;
    }
  return !text.empty() && ((text[0] >= '0' && text[0] <= '9') || text == "nan" || text == "inf");
}

bool is_number_column(const Rows& rows, std::size_t column) {
  bool any = false;
  for (const Row& row : rows) {
    if (column >= row.size() || row[column].empty() || row[column] == "–") continue;
    if (!looks_numeric(row[column])) return false;
    any = true;
  }
  return any;
}

// A number with its interval is not broken; one with a reason behind it is, so that the column
// stays as wide as others.
std::string cell(std::string_view tag, bool numeric, std::string_view text,
                 std::string_view name = "", std::string_view link = "") {
  constexpr std::size_t kUnbroken = 30;  // "-12345.67 [-23456.78, 1234.56]"
  const char* style = text == "–" ? numeric ? " class=\"num none\"" : " class=\"none\""
                      : !numeric  ? ""
                      : text.size() <= kUnbroken ? " class=\"num\""
                                                 : " class=\"num long\"";
  const std::string of = name.empty() ? "" : concat(" data-name=\"", escape(name), "\"");
  const std::string content =
      link.empty() ? escape(text) : concat("<a href=\"", escape(link), "\">", escape(text), "</a>");
  return concat("<", tag, style, of, ">", content, "</", tag, ">");
}

// As a page's policy names a script.
std::string digest_of(std::string_view script) {
  std::array<unsigned char, SHA256_DIGEST_LENGTH> digest;
  SHA256(reinterpret_cast<const unsigned char*>(script.data()), script.size(), digest.data());
  return to_base64({reinterpret_cast<const char*>(digest.data()), digest.size()});
}

}  // namespace

std::string escape(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size());
  for (const char c : text) {
    const auto* found = std::ranges::find(kEscapes, c, &std::pair<char, std::string_view>::first);
    if (found != std::end(kEscapes)) escaped += found->second;
    // Other control characters are not allowed in a page, not even escaped.
    else if (static_cast<unsigned char>(c) >= 0x20 || c == '\n' || c == '\t')
      escaped += c;
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

std::string picture_files(const std::vector<PictureFile>& pictures) {
  std::string html = "<div class=\"sheet\">\n";
  for (const PictureFile& picture : pictures) {
    const std::string path = escape(picture.path), caption = escape(picture.caption);
    html += concat("<figure><a href=\"", path, "\"><img loading=\"lazy\" src=\"", path, "\" alt=\"",
                   caption, "\"/></a><figcaption>", caption, "</figcaption></figure>\n");
  }
  return html + "</div>\n";
}

std::string paragraph(std::string_view text) {
  return concat("<p>", escape(text), "</p>\n");
}

Body& Body::operator+=(Body more) {
  html += more.html;
  std::ranges::move(more.notes, std::back_inserter(tables.empty() ? notes : tables.back().notes));
  std::ranges::move(more.tables, std::back_inserter(tables));
  return *this;
}

Body note(std::string_view text) {
  Body body(concat("<p class=\"note\">", escape(text), "</p>\n"));
  body.notes.emplace_back(text);
  return body;
}

std::string list(const std::vector<std::string>& lines) {
  std::string html = "<ul>\n";
  for (const std::string& line : lines) html += concat("<li>", escape(line), "</li>\n");
  return html + "</ul>\n";
}

Body table(const Row& header, const Rows& rows, const std::vector<std::string>& links) {
  const bool stacked = header.size() > kMaxNarrow && header.size() <= kMaxStacked;
  std::vector<bool> numeric;
  for (std::size_t c = 0; c < header.size(); ++c) numeric.push_back(is_number_column(rows, c));
  std::string html =
      concat("<div class=\"scroll\"><table", stacked ? " class=\"stacked\"" : "", "><thead><tr>");
  for (std::size_t c = 0; c < header.size(); ++c) html += cell("th", numeric[c], header[c]);
  html += "</tr></thead><tbody>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    html += "<tr>";
    for (std::size_t c = 0; c < header.size(); ++c)
      html += cell("td", numeric[c], c < rows[r].size() ? rows[r][c] : "",
                   stacked && (c > 0 || numeric[0]) ? header[c] : "",
                   c == 0 && r < links.size() ? links[r] : "");
    html += "</tr>\n";
  }
  Body body(html + "</tbody></table></div>\n");
  body.tables.push_back({header, rows, numeric});
  for (Row& row : body.tables.back().rows) row.resize(header.size());
  return body;
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

void Page::section(const std::string& heading, Body body) {
  ++sections_;
  contents_ += concat("<a href=\"#s", sections_, "\">", escape(heading), "</a>\n");
  body_ += concat("<section id=\"s", sections_, "\"><h2>", escape(heading), "</h2>\n", body.html,
                  "</section>\n");
  for (Table& table : body.tables) tables_.push_back({heading, std::move(table)});
}

std::string Page::finish() const {
  // Text of others is escaped, so that this is ours: data, which the script makes tables of.
  const bool runs = body_.find("<script ") != std::string::npos;
  return concat(
      "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n"
      // The browser itself sees to it that the page asks nobody for anything, and that no script
      // runs but ours.
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
      "style-src 'unsafe-inline'; img-src data:",
      reads_files ? " 'self' file:" : "",
      runs ? concat("; script-src 'sha256-", digest_of(kScript), "'") : "", "\"/>\n<title>",
      escape(title_), "</title>\n<style>", page_style_of_drawings(), kStyle,
      "</style>\n</head>\n<body>\n<header><h1>", escape(title_), "</h1>\n",
      subtitle_.empty() ? "" : concat("<p class=\"subtitle\">", escape(subtitle_), "</p>\n"),
      "</header>\n", sections_ > 1 ? concat("<nav>", contents_, "</nav>\n") : "", "<main>\n", body_,
      "</main>\n", runs ? concat("<script>", kScript, "</script>\n") : "", "</body>\n</html>\n");
}

}  // namespace coldframe::html
