#include "common/text/spelling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coldframe {
namespace {

using ::testing::ElementsAre;

TEST(PlainSpelling, OfAnIdHasNoZerosThatAProgramAdds) {
  for (const char* same : {"123", "0123", "123.0", " 00123.00", "\uff11\uff12\uff13"})
    EXPECT_EQ(plain_id(same), "123") << same;
  EXPECT_EQ(plain_id("000"), "0");
  for (const char* own : {"2.10", "2.1", "1e3", "-3", "p0123", "12.", ".0", ""})
    EXPECT_EQ(plain_id(own), own);
  EXPECT_EQ(find_equal_numbers({"P1", "0123", "7", "0123", "123"}),
            (std::pair<std::size_t, std::size_t>(1, 4)));
  EXPECT_EQ(find_equal_numbers({"P01", "P1", "2.1", "2.10", "1 234", "1234"}), std::nullopt);
  std::vector<std::string> values = {"123", "P", "123.0", "123"};
  EXPECT_EQ(unify_spelling(values), "");
  EXPECT_EQ(unify_spelling(values, EqualNumbers::kSame), "'123.0' as '123'");
}

TEST(Spelling, HasNeitherCaseNorWhiteSpace) {
  EXPECT_EQ(plain_spelling(" Left  Eye\t"), plain_spelling("lefteye"));
  EXPECT_EQ(plain_spelling("M\xC3\x9CNCHEN\xC2\xA0"), plain_spelling("m\xC3\xBCnchen"));
  EXPECT_EQ(plain_spelling("P 1"), plain_spelling("p1"));
  for (const char* same : {"m\u00fcller", "Mu\u0308ller", "\ufeffM\u00dcLLER", "M\u00fc\u200bller",
                           "M\xFCller", "\u2003M\u00fcller\u2029", "\uff2d\u00fcller"})
    EXPECT_EQ(plain_spelling(same), "m\u00fcller") << same;
  EXPECT_EQ(plain_spelling("Stra\u00dfe"), plain_spelling("STRASSE"));
}

TEST(Spelling, KeepsCodesApart) {
  EXPECT_NE(plain_spelling("007"), plain_spelling("7"));
  EXPECT_NE(plain_spelling("P1 12"), plain_spelling("P11 2"));
  EXPECT_NE(plain_spelling("\xC3\x97"), plain_spelling("\xC3\xB7"));  // times, divided by
}

TEST(Spelling, TheMostFrequentIsTaken) {
  std::vector<std::string> values = {"Yes", "yes", "no", "yes", "", "NO", "No", "other"};
  EXPECT_EQ(unify_spelling(values), "'No' and 'no' as 'NO', 'Yes' as 'yes'");
  EXPECT_THAT(values, ElementsAre("yes", "yes", "NO", "yes", "", "NO", "NO", "other"));
  EXPECT_EQ(unify_spelling(values), "");
}

TEST(Spelling, ManyChangesAreCounted) {
  std::vector<std::string> values;
  for (char letter = 'a'; letter < 'u'; ++letter)
    values.insert(values.end(), {std::string(1, letter), std::string(1, letter),
                                 std::string(1, static_cast<char>(letter - 32))});
  EXPECT_EQ(unify_spelling(values),
            "'A' as 'a', 'B' as 'b', 'C' as 'c', 'D' as 'd', 'E' as 'e' and 15 more");
}

TEST(Spelling, AKnownValueIsFoundWhereOneAloneIsSpeltAlike) {
  const std::vector<std::string> known = {"A", "a", "Left"};
  EXPECT_EQ(find_spelling(known, "a"), 1u);
  EXPECT_EQ(find_spelling(known, "LEFT "), 2u);
  EXPECT_EQ(find_spelling(known, " a"), std::nullopt);
  EXPECT_EQ(find_spelling(known, "right"), std::nullopt);
  std::vector<std::string> values = {"left", "a", "", "right"};
  EXPECT_EQ(unify_spelling(values, known), "'left' as 'Left'");
  EXPECT_THAT(values, ElementsAre("Left", "a", "", "right"));
}

}  // namespace
}  // namespace coldframe
