// Reports as one self-contained HTML page: no network, no script needed to read it, light and dark,
// printable. Charts are inline SVG drawn here; page.js sorts and filters what data_table.h writes.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace coldframe::html {

std::string escape(std::string_view text);
std::string to_base64(std::string_view bytes);

// A JPEG or PNG file, which goes into the page as it is, and what it shows in words.
struct Picture {
  std::string file, alt;  // no bytes: its place stays empty
};

struct Series {
  std::string name = {};
  std::vector<double> x = {}, y = {};
  std::vector<double> low = {}, high = {};  // optional band around y, same length, else empty
  bool dashed = false;
  bool points = false;                   // dots instead of a line
  std::vector<std::string> labels = {};  // optional: what the tooltip of each point says first
  std::vector<std::string> links = {};   // optional: where a click on each point leads
  // Rings that are all drawn, those beyond the range of the other series at the edge.
  bool outliers = false;
};

struct Chart {
  std::string title, x_label, y_label = {};
  std::vector<Series> series = {};
  bool unit_square = false;  // both axes from 0 to 1 (ROC, PR, calibration)
  bool diagonal = false;
  bool large = false;    // for plots of many points
  bool whole_x = false;  // x has whole numbers alone, of epochs or frames
  // Rows of pictures above the plot, from its left to its right.
  std::vector<std::vector<Picture>> above = {};
};
// An <svg>, styled by Page. Points that are not finite leave a gap; long series are thinned to
// about 1000 points that keep their extremes.
std::string line_chart(const Chart& chart);

struct Bar {
  std::string label;
  double value;
};
std::string bar_chart(std::string_view title, const std::vector<Bar>& bars, std::string_view unit);

// Counts the values in each of about 30 equal steps from the lowest to the highest finite one;
// whole numbers get steps of whole numbers.
std::string histogram(std::string_view title, std::string_view x_label, std::string_view counted,
                      const std::vector<double>& values);

// A square of values, [n, n], from faint (`low`) to full colour (`high`) in steps; NaN stays empty.
// Both axes are numbered by `numbers` [n]. `above`: empty, or a picture for each column [n], which
// stand above them in a row; of narrow columns only some have theirs.
std::string heat_map(std::string_view title, const std::vector<std::vector<double>>& cells,
                     double low, double high, const std::vector<std::size_t>& numbers,
                     const std::vector<Picture>& above = {});

// cells[row][column] with their labels; coloured by value, the value written inside (confusion
// matrix).
std::string matrix_chart(std::string_view title, const std::vector<std::string>& row_labels,
                         const std::vector<std::string>& column_labels,
                         const std::vector<std::vector<double>>& cells);

// The flow of participants as CONSORT draws it: boxes with numbers. Lines that are too long for
// their box are cut.
struct FlowChart {
  using Box = std::vector<std::string>;  // lines

  std::string title;
  Box found, left_out, kept;
  std::vector<Box> arms = {};  // that `kept` is divided into; none: it is the end
  std::string division = {};   // is written beside the arrows to these
};
std::string flow_chart(const FlowChart& flow);

// A picture in a file beside the page: its path from there, and what stands below it.
struct PictureFile {
  std::string path, caption;
};
// One after another; a click on one opens its file. For pages with `reads_files`.
std::string picture_files(const std::vector<PictureFile>& pictures);

std::string paragraph(std::string_view text);
std::string list(const std::vector<std::string>& lines);

using Row = std::vector<std::string>;
using Rows = std::vector<Row>;

// A table as data, for other writers than that of pages.
struct Table {
  Row header;
  Rows rows;
  std::vector<bool> numeric = {};       // [column] of numbers, aligned to the right
  std::vector<std::string> notes = {};  // below it
};

// A part of a page: its HTML, and the tables in it.
struct Body {
  Body() = default;
  Body(std::string text) : html(std::move(text)) {}
  Body(const char* text) : html(text) {}
  Body& operator+=(Body more);
  friend Body operator+(Body a, Body b) { return std::move(a += std::move(b)); }
  bool empty() const { return html.empty(); }

  std::string html;
  std::vector<Table> tables = {};
  std::vector<std::string> notes = {};  // of a table before this part
};

// Plain text in every cell; it is escaped here. `links`: empty, or where the first cell of each row
// leads, "" for nowhere.
Body table(const Row& header, const Rows& rows, const std::vector<std::string>& links = {});
Body note(std::string_view text);  // below a table
std::string key_values(const std::vector<std::pair<std::string, std::string>>& pairs);

// The look of pages, and what a page can do: page.css and page.js, compiled in.
extern const std::string_view kStyle, kScript;

class Page {
 public:
  explicit Page(std::string title, std::string subtitle = "");
  // Text in the body's HTML must have gone through escape().
  void section(const std::string& heading, Body body);
  std::string finish() const;

  bool reads_files = false;  // pictures beside the page

  struct CaptionedTable {
    std::string heading;  // of its section
    Table table;
  };
  const std::vector<CaptionedTable>& tables() const { return tables_; }

 private:
  std::string title_, subtitle_, body_, contents_;
  std::vector<CaptionedTable> tables_;
  int sections_ = 0;
};

}  // namespace coldframe::html
