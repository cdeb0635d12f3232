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
  std::string name;
  std::vector<double> x, y;
  std::vector<double> low, high;  // optional band around y, same length, else empty
  bool dashed = false;
  bool points = false;                   // dots instead of a line
  std::vector<std::string> labels = {};  // optional: what the tooltip of each point says first
  std::vector<std::string> links = {};   // optional: where a click on each point leads
  // Rings that are all drawn, those beyond the range of the other series at the edge.
  bool outliers = false;
};

struct Chart {
  std::string title, x_label, y_label;
  std::vector<Series> series;
  bool unit_square = false;  // both axes from 0 to 1 with the diagonal drawn (ROC, PR, calibration)
  bool diagonal = false;
  bool log_y = false;
  bool no_diagonal = false;  // a unit square without it (precision and recall)
  bool large = false;        // for plots of many points
  bool whole_x = false;      // x has whole numbers alone, of epochs or frames
  // Rows of pictures above the plot, from its left to its right.
  std::vector<std::vector<Picture>> above = {};
};
// An <svg>, styled by Page. Points that are not finite (or not positive under log_y) leave a gap;
// long series are thinned to about 1000 points that keep their extremes.
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

// A drawing of this width below its title and strips of pictures; alone where there are none: its
// title is in it then.
std::string framed(std::string_view title, double width, const std::string& strips,
                   const std::string& svg);
// Pictures of equal width in a row above a drawing of this width, which has these margins; of many
// only some have their place.
std::string picture_strip(const std::vector<Picture>& pictures, double left, double right,
                          double width);

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

// Plain text in every cell; it is escaped here. Columns of numbers are aligned to the right.
// `links`: empty, or where the first cell of each row leads, "" for nowhere.
std::string table(const std::vector<std::string>& header,
                  const std::vector<std::vector<std::string>>& rows,
                  const std::vector<std::string>& links = {});
std::string key_values(const std::vector<std::pair<std::string, std::string>>& pairs);

class Page {
 public:
  explicit Page(std::string title, std::string subtitle = "");
  // `body` is HTML; text must have gone through escape().
  void section(std::string_view heading, std::string_view body);
  std::string finish() const;

 private:
  std::string title_, subtitle_, body_, contents_;
  int sections_ = 0;
};

}  // namespace coldframe::html
