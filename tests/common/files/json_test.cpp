#include "common/files/json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using ::testing::HasSubstr;
using testing::message_of;

TEST(Json, KeepsTheOrderOfKeys) {
  EXPECT_EQ(parse_json(R"({"b": 1, "a": [true, null, "é"]})", "t").dump(),
            R"({"b":1,"a":[true,null,"é"]})");
}

TEST(Json, CanonicalTextDoesNotDependOnOrderOrSpace) {
  const Json one = parse_json(R"({"b": {"y": 1.5, "x": []}, "a": 2})", "t");
  const Json two = parse_json(R"({ "a":2,"b":{"x":[ ],"y":1.5} })", "t");
  EXPECT_EQ(canonical_json(one), R"({"a":2,"b":{"x":[],"y":1.5}})");
  EXPECT_EQ(canonical_json(one), canonical_json(two));
  EXPECT_NE(canonical_json(one), canonical_json(parse_json(R"({"a": 2})", "t")));
}

TEST(Json, NumbersThatJsonCannotCarryBecomeNull) {
  EXPECT_EQ(json_number(0.5).dump(), "0.5");
  EXPECT_EQ(json_number(std::numeric_limits<double>::quiet_NaN()).dump(), "null");
  EXPECT_EQ(json_number(-std::numeric_limits<double>::infinity()).dump(), "null");
}

std::string nested(std::size_t depth) {
  return std::string(depth, '[') + std::string(depth, ']');
}

std::string object_of(std::size_t keys) {
  std::string text = "{";
  for (std::size_t i = 0; i < keys; ++i) {
    text += (i ? ",\"" : "\"") + std::to_string(i) + "\":0";
  }
  return text + "}";
}

TEST(Json, TakesWhatLiesWithinTheBounds) {
  EXPECT_NO_THROW(parse_json(nested(64), "t"));
  EXPECT_EQ(parse_json(object_of(4096), "t").size(), 4096u);
}

struct BadJson {
  const char* name;
  std::string text;
  const char* message;
};

class BadJsonTest : public ::testing::TestWithParam<BadJson> {};

TEST_P(BadJsonTest, IsRefusedByName) {
  const std::string message =
      message_of<DataError>([] { parse_json(GetParam().text, "recipe of 'x.h5'"); });
  EXPECT_THAT(message, HasSubstr("recipe of 'x.h5'"));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

INSTANTIATE_TEST_SUITE_P(
    Inputs, BadJsonTest,
    ::testing::Values(BadJson{"Empty", "", "not valid JSON"},
                      BadJson{"Cut", R"({"a": [1, 2)", "not valid JSON at byte"},
                      BadJson{"Trailing", "{} {}", "not valid JSON"},
                      BadJson{"Comment", "{/* no */}", "not valid JSON"},
                      BadJson{"Nan", "[NaN]", "not valid JSON"},
                      BadJson{"HugeNumber", "[1e999]", "not valid JSON"},
                      BadJson{"BadUtf8", "[\"\xFF\"]", "not valid JSON"},
                      BadJson{"LoneSurrogate", "[\"\\ud800\"]", "not valid JSON"},
                      BadJson{"DuplicateKey", R"({"a": 1, "b": {"c": 1, "c": 2}})",
                              "the key 'c' occurs twice"},
                      BadJson{"Deep", nested(65), "deeper than 64"},
                      BadJson{"VeryDeep", std::string(1000000, '['), "deeper than 64"},
                      BadJson{"ManyKeys", object_of(4097), "more than 4096 keys"}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Json, PeopleReadSixDigitsOfNumbers) {
  const Json recipe = parse_json(
      R"({"crop_pct": 0.8749999965820313, "name": "center", "mean": [0.485, 1], "seed": 12345678})",
      "it");
  EXPECT_EQ(shown(recipe["crop_pct"]), "0.875");
  EXPECT_EQ(shown(recipe["name"]), "center");
  EXPECT_EQ(shown(recipe["mean"]), "[0.485, 1]");
  EXPECT_EQ(shown(recipe["seed"]), "12345678");
  EXPECT_EQ(shown(nullptr), "null");
}

TEST(Json, ReadsFilesAndNamesThem) {
  const testing::TemporaryFolder folder;
  folder.write("a.json", R"({"x": 1})");
  folder.write("b.json", "{");
  EXPECT_EQ(read_json_file(folder / "a.json")["x"], 1);
  EXPECT_THAT(message_of<DataError>([&] { read_json_file(folder / "b.json"); }),
              HasSubstr("b.json"));
  EXPECT_THROW(read_json_file(folder / "none.json"), DataError);
}

}  // namespace
}  // namespace coldframe
