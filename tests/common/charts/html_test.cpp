#include "common/charts/html.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/text/text.h"

namespace coldframe::html {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) {
    ++found;
  }
  return found;
}

// Counts the x,y pairs of the first polyline.
std::size_t points_of_first_line(const std::string& svg) {
  const std::size_t start = svg.find("points=\"", svg.find("<polyline")) + 8;
  const std::string points = svg.substr(start, svg.find('"', start) - start);
  return count(points, ",");
}

TEST(Html, EscapesEverythingThatCouldEndItsPlace) {
  EXPECT_EQ(escape("<a href=\"x\">'&'"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;");
  EXPECT_EQ(escape(std::string("a\0\x1b[31mé\n", 10)), "a[31mé\n");
}

TEST(Html, TextOfOthersNeverBecomesMarkup) {
  const std::string evil = "<script>alert(1)</script>";
  Chart chart{evil, evil, evil, {Series{evil, {0, 1}, {0, 1}, {}, {}}}};
  Page page(evil, evil);
  page.section(evil, line_chart(chart) + bar_chart(evil, {{evil, 1}}, evil) +
                         matrix_chart(evil, {evil}, {evil}, {{1}}) + table({evil}, {{evil}}) +
                         key_values({{evil, evil}}));
  EXPECT_THAT(page.finish(), Not(HasSubstr("<script")));
}

TEST(Html, PageAsksTheNetworkForNothing) {
  Page page("Report");
  page.section("One", "<p>text</p>");
  page.section("Two", "<p>text</p>");
  const std::string html = page.finish();
  EXPECT_THAT(html, HasSubstr("default-src 'none'"));
  EXPECT_THAT(html, Not(HasSubstr("src=")));
  EXPECT_THAT(html, Not(HasSubstr("<link")));
  EXPECT_THAT(html, HasSubstr("<a href=\"#s2\">Two</a>"));
  EXPECT_THAT(html, HasSubstr("prefers-color-scheme: dark"));
  EXPECT_THAT(html, HasSubstr("svg .tick, svg .label { fill: var(--soft); }"));
  EXPECT_THAT(html, HasSubstr("svg .bar, svg .cell { fill: currentColor; }"));
}

TEST(Html, NumbersStandAtTheRightOfTheirColumn) {
  const std::string html = table({"exam", "AUROC"}, {{"P1", "0.91 ± 0.02"}, {"P2", ""}}).html;
  EXPECT_THAT(html, HasSubstr("<th>exam</th><th class=\"num\">AUROC</th>"));
  EXPECT_THAT(html, HasSubstr("<td>P1</td><td class=\"num\">0.91 ± 0.02</td>"));
  EXPECT_THAT(table({"a", "b"}, {{"x"}}).html, HasSubstr("<td>x</td><td></td>"));
}

TEST(LineChart, LongLinesAreThinnedAndKeepTheirSpikes) {
  Series series{"loss", {}, {}, {}, {}};
  for (int i = 0; i < 100000; ++i) {
    series.x.push_back(i);
    series.y.push_back(i == 54321 ? 10.0 : std::sin(i * 0.001));
  }
  const std::string svg = line_chart({"t", "x", "y", {series}});
  EXPECT_LE(points_of_first_line(svg), 1000u);
  EXPECT_GE(points_of_first_line(svg), 500u);
  Chart flat{"t", "x", "y", {series}};
  flat.series[0].y[54321] = 0.0;
  EXPECT_NE(line_chart(flat), svg);
  EXPECT_LE(count(svg, "class=\"hover\""), 200u);
}

TEST(LineChart, ValuesThatCannotBeShownPartTheLine) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Series gap{"a", {0, 1, 2, 3, 4}, {1, 2, nan, 3, 4}, {}, {}};
  EXPECT_EQ(count(line_chart({"t", "", "", {gap}}), "<polyline"), 2u);
}

TEST(LineChart, OddInputsDrawWithoutNonsense) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<Series> cases = {
      {"empty", {}, {}, {}, {}},
      {"one", {3}, {4}, {}, {}},
      {"constant", {0, 1}, {5, 5}, {}, {}},
      {"zero", {0, 0}, {0, 0}, {}, {}},
      {"nothing finite", {0, 1}, {nan, inf}, {}, {}},
      {"huge", {0, 1}, {-1e308, 1e308}, {}, {}},
      {"tiny", {0, 1}, {1e-300, 2e-300}, {}, {}},
      {"lengths differ", {0, 1, 2}, {1}, {}, {}},
      {"band too short", {0, 1}, {1, 2}, {0}, {3}},
      {"band", {0, 1}, {1, 2}, {0, nan}, {3, 4}},
  };
  for (const Series& series : cases) {
    for (const bool flag : {false, true}) {
      Chart chart{"t", "x", "y", {series}};
      chart.diagonal = flag;
      const std::string svg = line_chart(chart);
      EXPECT_THAT(svg, Not(HasSubstr("\"nan"))) << series.name;
      EXPECT_THAT(svg, Not(HasSubstr("inf\""))) << series.name;
      EXPECT_LT(svg.size(), 20000u) << series.name;
    }
  }
  EXPECT_THAT(line_chart({"t", "x", "y", {}}), HasSubstr("no data"));
}

TEST(BarChart, DrawsValuesOfEitherSignAndNone) {
  const std::string svg = bar_chart("t", {{"a", 3}, {"b", -1.5}, {"c", std::nan("")}}, "exams");
  EXPECT_EQ(count(svg, "<rect"), 2u);
  EXPECT_THAT(svg, HasSubstr("-1.5 exams"));
  EXPECT_THAT(svg, HasSubstr("n/a"));
  EXPECT_THAT(bar_chart("t", {}, ""), HasSubstr("no data"));
}

TEST(Histogram, CountsEveryFiniteValue) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = histogram("t", "frames", "exams", {3, 3, 4, 7, nan});
  EXPECT_EQ(count(svg, "<rect"), 3u);
  for (const char* text : {">3: 2 exams<", ">4: 1 exams<", ">7: 1 exams<"})
    EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_THAT(svg, Not(HasSubstr(">3.5<"))) << "whole numbers have no ticks between them";
  EXPECT_THAT(histogram("t", "", "", {0.5, 1.25}), HasSubstr("0.5 to 0.525: 1 "));
  for (const std::vector<double>& odd :
       std::vector<std::vector<double>>{{}, {nan}, {5}, {1e308, -1e308}, {0.1, 0.1}})
    EXPECT_THAT(histogram("t", "", "", odd), Not(HasSubstr("\"nan")));
}

TEST(HeatMap, DrawsEachKnownCellOnce) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::string svg = heat_map("t", {{1, 0.5}, {nan, 1}}, 0.5, 1, {0, 12});
  EXPECT_EQ(count(svg, "<path"), 16u);  // one for each level
  EXPECT_EQ(count(svg, "z"), 3u + 16u) << "cells, and the bar that says what colours mean";
  for (const char* end : {">0.5<", ">1<"}) EXPECT_THAT(svg, HasSubstr(end));
  EXPECT_THAT(svg, HasSubstr(">12<"));
  EXPECT_NO_THROW(heat_map("t", {}, 1, 0, {}));
}

TEST(HeatMap, HasPicturesAboveTheirColumns) {
  const std::vector<std::vector<double>> cells(3, std::vector<double>(3, 1));
  const std::string html = heat_map("a < b", cells, 0, 1, {0, 1, 2},
                                    {{"\x01\x02\x03", "frame 0, \"x\""}, {}, {"z", "2"}});
  EXPECT_THAT(html, HasSubstr("<p class=\"title\">a &lt; b</p>"));
  EXPECT_EQ(count(html, "a &lt; b"), 2u) << "as a title and for those who cannot see the chart";
  EXPECT_THAT(html, HasSubstr("style=\"width:33.333%\" alt=\"frame 0, &quot;x&quot;\""));
  EXPECT_THAT(html, HasSubstr("src=\"data:image/jpeg;base64,AQID\""));
  EXPECT_THAT(html, HasSubstr("src=\"data:image/jpeg;base64,eg==\""));
  EXPECT_EQ(count(html, "<img"), 2u);
  EXPECT_EQ(count(html, "<span style=\"width:33.333%\"></span>"), 1u);
}

TEST(HeatMap, OfManyColumnsHasSomeOfTheirPictures) {
  const std::vector<std::vector<double>> cells(47, std::vector<double>(47, 1));
  std::vector<Picture> pictures;
  for (int i = 0; i < 47; ++i) pictures.push_back({i == 1 ? "" : "x", concat(i)});
  const std::string html = heat_map("t", cells, 0, 1, {}, pictures);
  EXPECT_EQ(count(html, "<img"), 16u);  // 528 / 47 is 11.2: three columns are wide enough for one
  for (const char* alt : {"alt=\"0\"", "alt=\"4\"", "alt=\"43\"", "width:4.255%\" alt=\"46\""})
    EXPECT_THAT(html, HasSubstr(alt));
}

TEST(MatrixChart, WritesEveryCell) {
  const std::string svg = matrix_chart("t", {"no", "yes"}, {"no", "yes"}, {{40, 2}, {0.25, 18}});
  EXPECT_EQ(count(svg, "<rect"), 4u);
  for (const char* text : {">40<", ">2<", ">0.25<", ">18<"}) EXPECT_THAT(svg, HasSubstr(text));
  EXPECT_NO_THROW(matrix_chart("t", {}, {}, {}));
  EXPECT_NO_THROW(matrix_chart("t", {"a"}, {"b"}, {{1, 2, 3}, {4}}));
}

}  // namespace
}  // namespace coldframe::html
