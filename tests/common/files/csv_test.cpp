#include "common/files/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using Row = std::vector<std::string>;

TEST(Csv, ReadsQuotesLineEndsAndAByteOrderMark) {
  const CsvTable table = parse_csv(
      "\xEF\xBB\xBF"
      "exam, path ,note\r\n"
      "1,\"a, b.png\",\"she said \"\"hi\"\"\"\r\n"
      "\n"
      "2,,\"two\nlines\"\n"
      "3,é,x",
      "t.csv");
  EXPECT_THAT(table.header, ElementsAre("exam", "path", "note"));
  ASSERT_EQ(table.rows.size(), 3u);
  EXPECT_THAT(table.rows[0], ElementsAre("1", "a, b.png", "she said \"hi\""));
  EXPECT_THAT(table.rows[1], ElementsAre("2", "", "two\nlines"));
  EXPECT_THAT(table.rows[2], ElementsAre("3", "é", "x"));
  EXPECT_THAT(table.lines, ElementsAre(2, 4, 6));
  EXPECT_EQ(table.column("note"), 2u);
  EXPECT_EQ(table.column("Note"), std::nullopt);
}

TEST(Csv, TakesOldMacLineEndsAndAHeaderAlone) {
  EXPECT_EQ(parse_csv("a,b\r1,2\r3,4\r", "t").rows.size(), 2u);
  EXPECT_TRUE(parse_csv("a,b", "t").rows.empty());
  EXPECT_THAT(parse_csv("a\n\"\"\nx\n", "t").rows, ElementsAre(Row{""}, Row{"x"}));
}

TEST(Csv, NamesTheColumnsThereAreWhenOneIsMissing) {
  const CsvTable table = parse_csv("exam,path\n", "list.csv");
  EXPECT_EQ(table.require_column("path"), 1u);
  EXPECT_EQ(message_of<DataError>([&] { table.require_column("label"); }),
            "list.csv: no column 'label'; the columns are: exam, path");
}

struct BadCsv {
  const char* name;
  std::string text;
  const char* message;
};

class BadCsvTest : public ::testing::TestWithParam<BadCsv> {};

TEST_P(BadCsvTest, IsRefusedWithItsLine) {
  EXPECT_THAT(message_of<DataError>([] { parse_csv(GetParam().text, "t.csv"); }),
              HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadCsvTest,
    ::testing::Values(
        BadCsv{"Empty", "", "t.csv is empty"}, BadCsv{"OnlyBlankLines", "\n \n\r\n", "is empty"},
        BadCsv{"OnlyMark", "\xEF\xBB\xBF", "is empty"},
        BadCsv{"Latin1", "exam\nM\xFCller\n", "not UTF-8"},
        BadCsv{"Surrogate", "exam\n\xED\xA0\x80\n", "not UTF-8"},
        BadCsv{"Overlong", "exam\n\xC0\xAF\n", "not UTF-8"},
        BadCsv{"Nul", std::string("a,b\n1,\0\n", 8), "NUL byte"},
        BadCsv{"Utf16",
               std::string("\xFF\xFE"
                           "a\0",
                           4),
               "not UTF-8"},
        BadCsv{"Excel", "PK\x03\x04", "t.csv is an Excel file"},
        BadCsv{"OldExcel", "\xD0\xCF\x11\xE0\xA1", "save it as CSV"},
        BadCsv{"TwoSeparators", "a,b;c\n1,2;3\n", "several of comma, semicolon and tab"},
        BadCsv{"Thousands", "a;b\n1;1,234\n", "column 'b' holds numbers such as 1,234 alone"},
        BadCsv{"EmptyColumn", "exam,,path\n", "line 1: column 2 of the header has no name"},
        BadCsv{"TrailingComma", "exam,path,\n", "column 3"},
        BadCsv{"DuplicateColumn", "exam,path,exam\n", "'exam' occurs twice"},
        BadCsv{"DuplicateAfterTrim", "exam, exam\n", "'exam' occurs twice"},
        BadCsv{"ShortRow", "a,b\n1,2\n3\n", "line 3: it has 1 field, the header has 2"},
        BadCsv{"LongRow", "a,b\n\n1,2,3\n", "line 3: it has 3 fields"},
        BadCsv{"EndlessLine", "a\n" + std::string(5u << 20, 'x') + "\n",
               "line 2: it has more than 4.0 MiB and begins with 'xxxxxxxxxxxxxxxxxxxx…xxxx"},
        BadCsv{"EndlessHeader", "a" + std::string(5u << 20, ';'), "line 1: it has more than"},
        BadCsv{"EndlessQuote", "a\n\"" + std::string(5u << 20, '\n'), "line 2: it has more than"},
        BadCsv{"OpenQuote", "a,b\n1,\"two\n3,4\n", "line 2: the quote that opens here"},
        BadCsv{"OpenQuoteAtEnd", "a,b\n1,\"", "line 2"},
        BadCsv{"TextAfterQuote", "a,b\n\"1\"x,2\n", "line 2: text after a closing quote"},
        BadCsv{"QuoteInside", "a,b\n1\"2,3\n", "line 2: a quote in the middle"},
        BadCsv{"LineCountThroughQuotes", "a,b\n\"x\ny\",1\n1\n", "line 4"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Csv, TakesSemicolonsTabsAndDecimalCommas) {
  const CsvTable table = parse_csv("a;b;\"c;d\"\n1,5;x,y;\"p;q\"\n-2;1,2;\nnan;\"1,5\";\n", "t");
  EXPECT_THAT(table.header, ElementsAre("a", "b", "c;d"));
  EXPECT_THAT(table.rows,
              ElementsAre(Row{"1.5", "x,y", "p;q"}, Row{"-2", "1,2", ""}, Row{"nan", "1,5", ""}));
  EXPECT_THAT(parse_csv("a\tb\n1\t0,25\n", "t").rows, ElementsAre(Row{"1", "0.25"}));
  EXPECT_THAT(parse_csv("a,b;c\n1,2\n", "t").header, ElementsAre("a", "b;c"));
  EXPECT_THAT(parse_csv("a,b;c\n1;2\n", "t").header, ElementsAre("a,b", "c"));
}

TEST(Csv, FieldsSurviveWritingAndReading) {
  const Row fields = {"plain", "",     "a,b",   "\"", "line\nbreak", " spaced ", "\r",
                      "é",     "\"\"", ", \",", "x"};
  const std::string text = csv_row(Row(fields.size(), "h")).replace(0, 21, "0,1,2,3,4,5,6,7,8,9,t");
  const CsvTable table = parse_csv(text + csv_row(fields), "t");
  ASSERT_EQ(table.rows.size(), 1u);
  EXPECT_EQ(table.rows[0], fields);
  EXPECT_EQ(csv_field("plain"), "plain");
  EXPECT_EQ(csv_field("a,\"b\""), "\"a,\"\"b\"\"\"");
  EXPECT_EQ(csv_row({"a", "b"}), "a,b\n");
}

// A spreadsheet would compute them.
TEST(Csv, FormulasAreGuardedAndReadBackAsTheyWere) {
  const std::pair<const char*, const char*> fields[] = {
      {"=1+1", "'=1+1"},    {"+cmd|' /C x'!A0", "'+cmd|' /C x'!A0"},
      {"-P1", "'-P1"},      {"@SUM(A1)", "'@SUM(A1)"},
      {"\tx", "'\tx"},      {"\rx", "\"'\rx\""},
      {"-1.5", "-1.5"},     {"+3", "+3"},
      {"-1e-05", "-1e-05"}, {"-", "'-"},
      {"'=1", "''=1"},      {"''-5", "'''-5"},
      {"'", "'"},           {"'s Heerenberg", "'s Heerenberg"},
      {"a=b", "a=b"},       {"=a,b", "\"'=a,b\""}};
  for (const auto& [value, written] : fields) {
    EXPECT_EQ(csv_field(value), written);
    EXPECT_THAT(parse_csv(csv_row({"a", "b"}) + csv_row({value, "x"}), "t").rows,
                ElementsAre(Row{value, "x"}));
  }
  EXPECT_THAT(parse_csv(csv_row({"=a", "-b"}), "t").header, ElementsAre("=a", "-b"));
}

// In a time that grows with their number: with its square, it would be minutes.
TEST(Csv, ManyColumnsAreReadInOnePass) {
  std::string header = "x";
  for (int i = 0; i < 400'000; ++i) header += "," + std::to_string(i);
  EXPECT_EQ(parse_csv(header, "t").header.size(), 400'001u);
}

TEST(Csv, ReadsFilesAndNamesThoseItCannot) {
  const testing::TemporaryFolder folder;
  folder.write("a.csv", "x\n1\n");
  EXPECT_EQ(read_csv(folder / "a.csv").rows.size(), 1u);
  EXPECT_THAT(message_of<DataError>([&] { read_csv(folder / "none.csv"); }),
              HasSubstr("none.csv': No such file"));
  EXPECT_THAT(message_of<DataError>([&] { read_csv(folder / ""); }), HasSubstr("it is a folder"));
}

}  // namespace
}  // namespace coldframe
