#include "common/charts/data_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "common/text/text.h"

namespace coldframe::html {

namespace {

constexpr std::size_t kFirstRows = 25;

// Distinct texts once, in order of appearance, and for each row the place of its own among them.
Json packed_texts(const std::vector<std::string>& texts) {
  Json data{{"values", Json::array()}};
  std::unordered_map<std::string_view, std::uint32_t> places;
  std::vector<std::uint32_t> codes;
  for (const std::string& text : texts) {
    const auto [place, is_new] = places.emplace(text, static_cast<std::uint32_t>(places.size()));
    if (is_new) data["values"].push_back(text);
    codes.push_back(place->second);
  }
  if (places.size() == texts.size()) return data;  // row i has text i
  data["width"] = places.size() <= 0x100 ? 1 : places.size() <= 0x10000 ? 2 : 4;
  data["codes"] = places.size() <= 0x100     ? packed<std::uint8_t>(codes)
                  : places.size() <= 0x10000 ? packed<std::uint16_t>(codes)
                                             : packed<std::uint32_t>(codes);
  return data;
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

Body with_data(std::string_view kind, std::string_view id, Body body, const Json& data) {
  body.html =
      concat("<div class=\"", kind, "\"", id.empty() ? "" : concat(" id=\"", id, "\""), ">\n",
             body.html, "<script type=\"application/json\">", inert(data), "</script>\n</div>\n");
  return body;
}

std::string link_to(std::string_view table, std::size_t row) {
  return concat("#", table, "-", row);
}

DataTable::DataTable(std::string id, const std::string& first_column,
                     std::vector<std::string> names)
    : id_(std::move(id)) {
  add_text(first_column, std::move(names));
}

void DataTable::add_text(const std::string& name, std::vector<std::string> values) {
  Json data = packed_texts(values);
  data["name"] = name;
  columns_.push_back(
      {std::move(data), [values = std::move(values)](auto row) { return values[row]; }});
}

void DataTable::add_numbers(const std::string& name, std::vector<double> values, int digits) {
  const bool fits_float = std::ranges::all_of(values, [&](double value) {
    return !std::isfinite(value) ||
           fixed(value, digits) == fixed(static_cast<float>(value), digits);
  });
  Json data{{"name", name},
            {"digits", digits},
            {"exact", !fits_float},
            {"numbers", fits_float ? packed<float>(values) : packed<double>(values)}};
  const auto text_of = [values, digits](std::size_t row) {
    return std::isfinite(values[row]) ? fixed(values[row], digits) : "–";
  };
  columns_.push_back({std::move(data), text_of, std::move(values)});
}

void DataTable::add_rows(const std::string& name, std::vector<std::uint32_t> values) {
  Json data{{"name", name}, {"rows", packed<std::uint32_t>(values)}};
  columns_.push_back(
      {std::move(data), [values = std::move(values), names = columns_[0].text_of](auto row) {
         return values[row] == kNoRow ? "–" : names(values[row]);
       }});
}

std::string DataTable::first_rows(const std::vector<double>& keys) const {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t row) {
    return std::isnan(keys[row]) ? -std::numeric_limits<double>::infinity() : keys[row];
  };
  std::ranges::stable_sort(order, std::greater<>{}, key);
  order.resize(std::min(order.size(), kFirstRows));
  Row header;
  for (const Column& column : columns_) header.push_back(column.data["name"].get<std::string>());
  Rows rows;
  for (const std::size_t row : order) {
    rows.emplace_back();
    for (const Column& column : columns_) rows.back().push_back(column.text_of(row));
  }
  const std::string of = keys.size() == order.size()
                             ? concat("All ", keys.size(), " rows.")
                             : concat("The first ", order.size(), " of ", keys.size(),
                                      " rows. In a browser that runs scripts this table has all.");
  return concat("<p class=\"rest\">", of, "</p>\n", table(header, rows).html);
}

std::string DataTable::html(std::string_view sorted_by) const {
  const auto sorted = std::ranges::find(columns_, sorted_by, [](const Column& column) {
    return column.data["name"].get<std::string>();
  });
  Json data{{"columns", Json::array()},
            {"sorted", sorted - columns_.begin()},
            {"pictures", Json::object()},
            {"without_pictures", without_pictures}};
  for (const Column& column : columns_) data["columns"].push_back(column.data);
  for (const auto& [row, those] : pictures)
    for (const Picture& picture : those)
      data["pictures"][concat(row)].push_back({picture.alt, to_base64(picture.file)});
  return with_data("data", id_, first_rows(sorted->numbers), data).html;
}

}  // namespace coldframe::html
