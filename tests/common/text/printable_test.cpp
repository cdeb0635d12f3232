#include "common/text/text.h"

#include <gtest/gtest.h>

#include <string>

#include "common/files/json.h"

namespace coldframe {
namespace {

TEST(Printable, EscapesWhatSteersATerminalAndLeavesTheRest) {
  EXPECT_EQ(printable("Müller 5 × 超音波 שלום 🫀"),
            "Müller 5 × 超音波 שלום 🫀");
  EXPECT_EQ(printable("\x1b[2J\r\x7f"), "\\u001b[2J\\u000d\\u007f");
  EXPECT_EQ(printable(std::string("a\0b", 3)), "a\\u0000b");
  EXPECT_EQ(printable("\u009b31m"), "\\u009b31m");
  EXPECT_EQ(printable("exam\u202egnp.\u2066x\u200f\u061c\u2028"),
            "exam\\u202egnp.\\u2066x\\u200f\\u061c\\u2028");
  EXPECT_EQ(printable("caf\xe9\xe2\x80"), "caf\\xe9\\xe2\\x80");
  EXPECT_EQ(printable("a\n\tb"), "a\\u000a\\u0009b");
  EXPECT_EQ(printable("a\n\tb\r", Lines::kMany), "a\n\tb\\u000d");
}

TEST(Printable, IsTheSameTextInJson) {
  const Json json = {{"exam\u202e\x1b", "\u009b \x7f \u2029"}};
  EXPECT_EQ(parse_json(printable(json.dump(2), Lines::kMany), "printed"), json);
}

TEST(Printable, KnowsWhereALastCodePointIsCutOff) {
  const std::string text = "a×超🫀";
  for (std::size_t size = 0; size <= text.size(); ++size) {
    const std::size_t whole = whole_code_points(std::string_view(text).substr(0, size));
    EXPECT_TRUE(is_valid_utf8(std::string_view(text).substr(0, whole))) << size;
    EXPECT_LT(size - whole, 4u);
  }
  EXPECT_EQ(whole_code_points(text), text.size());
  EXPECT_EQ(whole_code_points("\x80\x80\x80\x80"), 4u);
}

}  // namespace
}  // namespace coldframe
