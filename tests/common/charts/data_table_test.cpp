#include "common/charts/data_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "common/files/json.h"
#include "common/text/text.h"

namespace coldframe::html {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::string between(const std::string& text, const std::string& start, const std::string& end) {
  const std::size_t at = text.find(start) + start.size();
  return text.substr(at, text.find(end, at) - at);
}

Json data_of(const std::string& html) {
  return parse_json(between(html, "<script type=\"application/json\">", "</script>"), "data");
}

DataTable make_table(std::size_t rows) {
  std::vector<std::string> names, words;
  std::vector<double> numbers;
  std::vector<std::uint32_t> others;
  for (std::size_t i = 0; i < rows; ++i) {
    names.push_back(concat("e", i));
    words.push_back(i % 2 == 0 ? "even" : "odd");
    numbers.push_back(i == 1 ? std::nan("") : static_cast<double>(i));
    others.push_back(i == 0 ? DataTable::kNoRow : 0);
  }
  DataTable table("t", "name", names);
  table.add_text("word", words);
  table.add_numbers("number", numbers, 1);
  table.add_rows("other", others);
  return table;
}

TEST(DataTable, KeepsTextsOnceAndNumbersAsBytes) {
  const Json columns = data_of(make_table(4).html("number"))["columns"];
  EXPECT_EQ(columns[0]["values"], Json::parse(R"(["e0", "e1", "e2", "e3"])"));
  EXPECT_FALSE(columns[0].contains("codes"));
  EXPECT_EQ(columns[1]["values"], Json::parse(R"(["even", "odd"])"));
  EXPECT_EQ(columns[1]["codes"], to_base64(std::string("\0\1\0\1", 4)));
  EXPECT_EQ(columns[2]["numbers"].get<std::string>().size(), 24u);  // 16 bytes
  EXPECT_EQ(columns[3]["rows"],
            to_base64(std::string("\xff\xff\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0", 16)));
}

TEST(DataTable, WidensCodesWithTheNumberOfTexts) {
  for (const auto& [distinct, width] : {std::pair{256, 1}, {257, 2}, {65536, 2}, {65537, 4}}) {
    std::vector<std::string> names, words;
    for (int i = 0; i <= distinct; ++i) {
      names.push_back(concat(i));
      words.push_back(concat(i % distinct));
    }
    DataTable table("t", "name", names);
    table.add_text("word", words);
    table.add_numbers("number", std::vector<double>(names.size()), 0);
    EXPECT_EQ(data_of(table.html("number"))["columns"][1]["width"], width) << distinct;
  }
}

TEST(DataTable, FirstRowsStandThereWithoutScripts) {
  const std::string html = make_table(40).html("number");
  EXPECT_THAT(html, HasSubstr("The first 25 of 40 rows."));
  const std::string rows = between(html, "<tbody>", "</tbody>");
  EXPECT_THAT(rows, HasSubstr("<tr><td>e39</td><td data-name=\"word\">odd</td><td class=\"num\" "
                              "data-name=\"number\">39.0</td><td data-name=\"other\">e0</td>"));
  EXPECT_THAT(rows, Not(HasSubstr("<td>e14</td>")));
  EXPECT_THAT(make_table(2).html("number"),
              HasSubstr("<td class=\"num none\" data-name=\"number\">–</td>"));
}

TEST(DataTable, TextOfOthersNeverBecomesMarkup) {
  const std::string evil = "</script><script>alert(1)</script><!--\xe2\x80\xa8\xff&amp;";
  DataTable table("t", evil, {evil});
  table.add_text(evil, {evil});
  table.add_numbers("number", {1}, 0);
  table.pictures[0] = {{"", evil}};
  table.without_pictures = evil;
  const std::string html = table.html("number");
  EXPECT_THAT(html, Not(HasSubstr("<script>")));
  EXPECT_THAT(html, Not(HasSubstr("<!--")));
  EXPECT_EQ(html.find("</script>"), html.rfind("</script>"));
  const std::string name = data_of(html)["columns"][1]["name"];
  EXPECT_THAT(name, HasSubstr("</script><script>alert(1)</script><!--\xe2\x80\xa8"));
  Page page("x");
  page.section("x", html);
  EXPECT_THAT(page.finish(), HasSubstr("; script-src 'sha256-"));
}

TEST(Chart, OutliersStandAtTheEdgeAndLead) {
  Series usual{"usual", {0, 1}, {0, 1}, {}, {}}, far{"far", {1000}, {0.5}, {}, {}};
  usual.points = far.points = far.outliers = true;
  far.links = {link_to("t", 7)};
  const std::string with = line_chart({"", "", "", {usual, far}});
  const std::string without = line_chart({"", "", "", {usual}});
  EXPECT_THAT(with, HasSubstr("<a href=\"#t-7\"><circle class=\"dot ring\" cx=\"436\""));
  const std::string dots = between(without, "</title>\n", "</g>");
  EXPECT_THAT(with, HasSubstr(dots)) << "the outlier moves no other point";
}

}  // namespace
}  // namespace coldframe::html
