#include "common/text/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/cli/error.h"

namespace coldframe {
namespace {

using ::testing::ElementsAre;

TEST(Text, NamesThatAreNotUtf8AreSpelt) {
  EXPECT_EQ(utf8_name("Größe 超.png"), "Größe 超.png");
  EXPECT_EQ(utf8_name("Größe/caf\xe9.png"), "Größe/caf%E9.png");
  EXPECT_EQ(utf8_name("\xe2\x80"), "%E2%80");
}

TEST(Text, WordsOfCommandsAreQuotedAsPythonDoes) {
  const std::pair<const char*, const char*> cases[] = {
      {"age", "age"},
      {"", "''"},
      {"the site", "'the site'"},
      {"Simon's", R"('Simon'"'"'s')"},
      {"a;b", "'a;b'"},
      {"$HOME", "'$HOME'"},
      {"Größe", "'Größe'"},
      {"runs/a-1.csv:x=2,3@4%+_", "runs/a-1.csv:x=2,3@4%+_"},
      {"`x`", "'`x`'"},
      {"a\"b\\", "'a\"b\\'"}};
  for (const auto& [text, word] : cases) EXPECT_EQ(shell_word(text), word);
}

TEST(Text, Numbers) {
  EXPECT_EQ(concat("frame ", 7, " of ", 12u), "frame 7 of 12");
  EXPECT_EQ(fixed(0.9132, 3), "0.913");
  EXPECT_EQ(fixed(-0.5, 0), "-0");
  EXPECT_EQ(fixed(std::nan(""), 2), "nan");
  EXPECT_EQ(fixed(-std::numeric_limits<double>::infinity(), 2), "-inf");
  EXPECT_EQ(plural(1, "exam"), "1 exam");
  EXPECT_EQ(plural(0, "exam"), "0 exams");
}

TEST(Text, ExactNumbersReadBackTheSame) {
  const std::pair<double, const char*> cases[] = {
      {0.1953125, "0.1953125"}, {0.1, "0.1"},   {40, "40"},       {-0.5, "-0.5"},
      {100000, "100000"},       {1e6, "1e+06"}, {1e-4, "0.0001"}, {1 / 3.0, "0.3333333333333333"}};
  for (const auto& [number, text] : cases) EXPECT_EQ(exact(number), text);
  for (const double number : {1234567.25, 5e-324, 1.7976931348623157e308, -2.5e-7}) {
    double back = 0;
    EXPECT_TRUE(parse_double(exact(number), back));
    EXPECT_EQ(back, number);
  }
}

TEST(Text, BytesAndDurations) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(1023), "1023 B");
  EXPECT_EQ(human_bytes(1536), "1.5 KiB");
  EXPECT_EQ(human_bytes((1u << 20) - 1), "1.0 MiB");
  EXPECT_EQ(human_bytes(std::numeric_limits<std::uint64_t>::max()), "16.0 EiB");
  EXPECT_EQ(human_duration(0.0123), "12ms");
  EXPECT_EQ(human_duration(4.25), "4.2s");
  EXPECT_EQ(human_duration(59.6), "1m 0s");
  EXPECT_EQ(human_duration(75), "1m 15s");
  EXPECT_EQ(human_duration(3 * 3600 + 125), "3h 2m");
  EXPECT_EQ(human_duration(std::nan("")), "?");
  EXPECT_EQ(human_duration(-1), "?");
  EXPECT_EQ(human_duration(1e300), "?");
}

TEST(Text, SplitJoinTrim) {
  EXPECT_THAT(split("a,,b,", ','), ElementsAre("a", "", "b", ""));
  EXPECT_THAT(split("", ','), ElementsAre(""));
  EXPECT_EQ(join({"a", "b"}, ", "), "a, b");
  EXPECT_EQ(trim(" \t a b\r\n"), "a b");
  EXPECT_EQ(trim(" "), "");
  EXPECT_EQ(lower("ÄBC-9"), "Äbc-9");
}

TEST(Text, Utf8) {
  for (const char* valid : {"", "abc", "é", "€", "\xF0\x9F\x98\x80", "\xF4\x8F\xBF\xBF"}) {
    EXPECT_TRUE(is_valid_utf8(valid)) << valid;
  }
  for (const char* invalid : {"\x80", "\xC3", "\xC0\x80", "\xE0\x80\x80", "\xED\xA0\x80",
                              "\xF4\x90\x80\x80", "\xF5\x80\x80\x80", "\xE2\x82", "a\xFF"}) {
    EXPECT_FALSE(is_valid_utf8(invalid)) << invalid;
  }
}

TEST(Text, WholeStringConversions) {
  double real = 7.0;
  EXPECT_TRUE(parse_double("+1.5e-3", real));
  EXPECT_DOUBLE_EQ(real, 1.5e-3);
  EXPECT_TRUE(parse_double("nan", real));
  EXPECT_TRUE(std::isnan(real));
  EXPECT_TRUE(parse_double("-inf", real));
  real = 7.0;
  for (const char* bad : {"", "+", "+-1", "1 ", " 1", "1,5", "0x10", "1e999", "12a"}) {
    EXPECT_FALSE(parse_double(bad, real)) << bad;
  }
  EXPECT_EQ(real, 7.0) << "untouched on failure";

  std::int64_t whole = 7;
  EXPECT_TRUE(parse_int("-9223372036854775808", whole));
  EXPECT_EQ(whole, std::numeric_limits<std::int64_t>::min());
  EXPECT_TRUE(parse_int("+12", whole));
  EXPECT_EQ(whole, 12);
  for (const char* bad : {"", "1.0", "9223372036854775808", "+-1", "1 ", "0x1"}) {
    EXPECT_FALSE(parse_int(bad, whole)) << bad;
  }
}

TEST(Text, AmountsOfMemory) {
  EXPECT_EQ(parse_bytes("500MiB"), 500ull << 20);
  EXPECT_EQ(parse_bytes("2GB"), 2000000000u);
  EXPECT_EQ(parse_bytes(" 1.5 gib "), 3ull << 29);
  EXPECT_EQ(parse_bytes("4096"), 4096u);
  for (const char* bad :
       {"", "MiB", "-1", "1.2.3GB", "5 apples", "1e30GB", "nan", "99999999999TB"}) {
    EXPECT_THROW(parse_bytes(bad), ConfigError) << bad;
  }
}

TEST(Text, NearestIsWhatAHandThatSlippedMeant) {
  const std::vector<std::string> words = {"train", "evaluate", "predict", "extract", "cache"};
  EXPECT_EQ(nearest("trian", words), "train");
  EXPECT_EQ(nearest("evaluat", words), "evaluate");
  EXPECT_EQ(nearest("extarct", words), "extract");
  EXPECT_EQ(nearest("xcache", words), "cache");
  EXPECT_EQ(nearest("xyz", words), "");
  EXPECT_EQ(nearest("stage", {"store", "batch"}), "");
  EXPECT_EQ(nearest("stage-size", {"image-size"}), "");
  EXPECT_EQ(nearest("anything", {}), "");
}

TEST(Text, NaturalOrder) {
  const std::vector<std::string> sorted = {"",
                                           "a",
                                           "a1b",
                                           "a1b2",
                                           "a02",
                                           "a2",
                                           "a2b",
                                           "frame1",
                                           "frame2",
                                           "frame10",
                                           "frame10a",
                                           "frame100",
                                           "z99999999999999999999999998",
                                           "z99999999999999999999999999"};
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    for (std::size_t j = 0; j < sorted.size(); ++j) {
      EXPECT_EQ(natural_less(sorted[i], sorted[j]), i < j) << sorted[i] << " " << sorted[j];
    }
  }
}

}  // namespace
}  // namespace coldframe
