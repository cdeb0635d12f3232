// A table of a hundred thousand rows in a page: page.js sorts, filters and searches it, and shows
// each row on a card. Without scripts, and in print, its first rows stand there.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/charts/html.h"

namespace coldframe::html {

class DataTable {
 public:
  // `id` of letters; link_to(id, i) opens row i. The first column holds the names of the rows.
  DataTable(std::string id, std::string first_column, std::vector<std::string> names);

  // Columns of one value per row.
  void add_text(std::string name, std::vector<std::string> values);
  // `digits` behind the point; float32 in the page, where that shows the same. NaN: no value.
  void add_numbers(std::string name, std::vector<double> values, int digits);
  // Indices of other rows, which are shown as links to them; kNoRow: none.
  static constexpr std::uint32_t kNoRow = UINT32_MAX;
  void add_rows(std::string name, std::vector<std::uint32_t> values);

  // What the card of a row shows below its values, in this order.
  void add_pictures(std::size_t row, const std::vector<Picture>& pictures);
  // What the card says of rows that have no pictures.
  void explain_missing_pictures(std::string text) { without_pictures_ = std::move(text); }

  // The table, sorted by this column of numbers, the highest first.
  std::string html(std::string_view sorted_by) const;

 private:
  struct Column {
    std::string name;
    std::vector<std::string> text;
    std::vector<double> numbers;
    std::vector<std::uint32_t> rows;
    int digits = 0;
  };
  static bool fits_float(const Column& column);
  std::string shown(const Column& column, std::size_t row) const;
  std::string first_rows(const std::vector<double>& keys) const;

  std::string id_, without_pictures_;
  std::vector<Column> columns_;
  std::map<std::size_t, std::vector<Picture>> pictures_;
};

std::string link_to(std::string_view table, std::size_t row);

}  // namespace coldframe::html
