#include "common/text/table.h"

#include <gtest/gtest.h>

namespace coldframe {
namespace {

TEST(Table, CountsLettersAndNotBytes) {
  EXPECT_EQ(letters(""), 0u);
  EXPECT_EQ(letters("5 × 3 – Größe"), 13u);
  EXPECT_EQ(letters("超音波"), 3u);
  EXPECT_EQ(padded("×", 3), "×  ");
  EXPECT_EQ(padded("abcd", 3), "abcd");
}

TEST(Table, LeavesTheMiddleOfLongNamesOut) {
  EXPECT_EQ(without_middle("abcdefghi", 9), "abcdefghi");
  EXPECT_EQ(without_middle("abcdefghij", 9), "abc…fghij");
  EXPECT_EQ(without_middle("äbcdefghij", 9), "äbc…fghij");
  EXPECT_EQ(without_middle("×××××", 3), "×…×");
  EXPECT_EQ(letters(without_middle("abcdefghij", 4)), 4u);
  EXPECT_EQ(without_middle("abcdefghij\xff", 4), "abcdefghij\xff");
  EXPECT_EQ(without_middle("\x80\x80\x80\x80", 3), "\x80\x80\x80\x80");
}

TEST(Table, AlignsColumnsAndEndsLinesWithoutSpaces) {
  EXPECT_EQ(table_text({{"exam", "size"}, {"a", "4×3", "late"}, {"größer", ""}, {}}),
            "exam    size\n"
            "a       4×3   late\n"
            "größer\n"
            "\n");
  EXPECT_EQ(table_text({}), "");
}

TEST(Table, TakesWhatSteersTheTerminalOut) {
  EXPECT_EQ(table_text({{"a\x1b[2J\nb", "\x7f.", "c"}}), "a\\u001b[2J\\u000ab  \\u007f.  c\n");
}

TEST(Table, WritesLongOnesWhole) {
  const TextRows rows(5000, {"an exam of some length", "12", "3.00 s"});
  std::string expected;
  for (std::size_t i = 0; i < rows.size(); ++i) expected += "an exam of some length  12  3.00 s\n";
  EXPECT_EQ(table_text(rows), expected);
}

}  // namespace
}  // namespace coldframe
