// Data in a page. Its script (page.js) shows them; without the script, other HTML stands there. A
// table of a hundred thousand rows: the script sorts, filters and searches it, and shows each row
// on a card. Without scripts, and in print, its first rows stand there.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/charts/html.h"
#include "common/files/json.h"

namespace coldframe::html {

// <div class="KIND" id="ID"> with what is for those who read without scripts or print, and the
// data.
Body with_data(std::string_view kind, std::string_view id, Body body, const Json& data);

// The bytes of little-endian values, in base64.
template <typename To, typename From>
std::string packed(const std::vector<From>& values) {
  std::string bytes(values.size() * sizeof(To), '\0');
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto value = static_cast<To>(values[i]);
    std::memcpy(bytes.data() + i * sizeof(To), &value, sizeof(To));
  }
  return to_base64(bytes);
}

class DataTable {
 public:
  // `id` of letters; link_to(id, i) opens row i. The first column holds the names of the rows.
  DataTable(std::string id, const std::string& first_column, std::vector<std::string> names);

  // Columns of one value per row.
  void add_text(const std::string& name, std::vector<std::string> values);
  // `digits` after the decimal point; float32 in the page, where that shows the same. NaN: no
  // value.
  void add_numbers(const std::string& name, std::vector<double> values, int digits);
  // Indices of other rows, which are shown as links to them; kNoRow: none.
  static constexpr std::uint32_t kNoRow = UINT32_MAX;
  void add_rows(const std::string& name, std::vector<std::uint32_t> values);

  std::map<std::size_t, std::vector<Picture>> pictures;  // on the card of a row
  std::string without_pictures;                          // what the card says of rows without

  // The table, sorted by this column of numbers, the highest first.
  std::string html(std::string_view sorted_by) const;

 private:
  struct Column {
    Json data;                                        // as the script takes it
    std::function<std::string(std::size_t)> text_of;  // a row
    std::vector<double> numbers = {};
  };
  std::string first_rows(const std::vector<double>& keys) const;

  std::string id_;
  std::vector<Column> columns_;
};

std::string link_to(std::string_view table, std::size_t row);

}  // namespace coldframe::html
