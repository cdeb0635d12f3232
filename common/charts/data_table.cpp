#include "common/charts/data_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <unordered_map>

#include "common/charts/page_data.h"
#include "common/text/text.h"

namespace coldframe::html {

namespace {

constexpr std::size_t kFirstRows = 25;

// Distinct texts once, in order of appearance, and for each row the place of its own among them.
void pack_texts(const std::vector<std::string>& texts, Json& column) {
  std::unordered_map<std::string_view, std::uint32_t> places;
  std::vector<std::uint32_t> codes;
  column["values"] = Json::array();
  for (const std::string& text : texts) {
    const auto [place, is_new] = places.emplace(text, static_cast<std::uint32_t>(places.size()));
    if (is_new) column["values"].push_back(text);
    codes.push_back(place->second);
  }
  if (places.size() == texts.size()) return;  // row i has text i
  column["width"] = places.size() <= 0x100 ? 1 : places.size() <= 0x10000 ? 2 : 4;
  column["codes"] = places.size() <= 0x100     ? packed<std::uint8_t>(codes)
                    : places.size() <= 0x10000 ? packed<std::uint16_t>(codes)
                                               : packed<std::uint32_t>(codes);
}

}  // namespace

std::string link_to(std::string_view table, std::size_t row) {
  return concat("#", table, "-", row);
}

DataTable::DataTable(std::string id, std::string first_column, std::vector<std::string> names)
    : id_(std::move(id)) {
  add_text(std::move(first_column), std::move(names));
}

void DataTable::add_text(std::string name, std::vector<std::string> values) {
  columns_.push_back({std::move(name), std::move(values), {}, {}});
}

void DataTable::add_numbers(std::string name, std::vector<double> values, int digits) {
  columns_.push_back({std::move(name), {}, std::move(values), {}, digits});
}

void DataTable::add_rows(std::string name, std::vector<std::uint32_t> values) {
  columns_.push_back({std::move(name), {}, {}, std::move(values)});
}

void DataTable::add_pictures(std::size_t row, const std::vector<Picture>& pictures) {
  pictures_[row] = pictures;
}

std::string DataTable::shown(const Column& column, std::size_t row) const {
  if (!column.text.empty()) return column.text[row];
  if (!column.numbers.empty())
    return std::isfinite(column.numbers[row]) ? fixed(column.numbers[row], column.digits) : "–";
  return column.rows[row] == kNoRow ? "–" : columns_[0].text[column.rows[row]];
}

// True where float32 shows the same digits.
bool DataTable::fits_float(const Column& column) {
  return std::ranges::all_of(column.numbers, [&](double value) {
    return !std::isfinite(value) ||
           fixed(value, column.digits) == fixed(static_cast<float>(value), column.digits);
  });
}

std::string DataTable::first_rows(const std::vector<double>& keys) const {
  std::vector<std::size_t> order(keys.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t row) {
    return std::isnan(keys[row]) ? -std::numeric_limits<double>::infinity() : keys[row];
  };
  std::ranges::stable_sort(order, std::greater<>{}, key);
  order.resize(std::min(order.size(), kFirstRows));
  std::vector<std::string> header;
  for (const Column& column : columns_) header.push_back(column.name);
  std::vector<std::vector<std::string>> rows;
  for (const std::size_t row : order) {
    rows.emplace_back();
    for (const Column& column : columns_) rows.back().push_back(shown(column, row));
  }
  const std::string of = keys.size() == order.size()
                             ? concat("All ", keys.size(), " rows.")
                             : concat("The first ", order.size(), " of ", keys.size(),
                                      " rows. In a browser that runs scripts this table has all.");
  return concat("<p class=\"rest\">", of, "</p>\n", table(header, rows));
}

std::string DataTable::html(std::string_view sorted_by) const {
  Json data = Json::object();
  data["columns"] = Json::array();
  const Column* sorted = nullptr;
  for (const Column& column : columns_) {
    Json json{{"name", column.name}};
    if (!column.text.empty()) {
      pack_texts(column.text, json);
    } else if (!column.numbers.empty()) {
      json["digits"] = column.digits;
      json["exact"] = !fits_float(column);
      json["numbers"] =
          json["exact"] ? packed<double>(column.numbers) : packed<float>(column.numbers);
    } else {
      json["rows"] = packed<std::uint32_t>(column.rows);
    }
    if (sorted == nullptr && column.name == sorted_by) {
      sorted = &column;
      data["sorted"] = data["columns"].size();
    }
    data["columns"].push_back(std::move(json));
  }
  data["pictures"] = Json::object();
  for (const auto& [row, pictures] : pictures_)
    for (const Picture& picture : pictures)
      data["pictures"][concat(row)].push_back({picture.alt, to_base64(picture.file)});
  data["without_pictures"] = without_pictures_;
  return with_data("data", id_, first_rows(sorted->numbers), data);
}

}  // namespace coldframe::html
