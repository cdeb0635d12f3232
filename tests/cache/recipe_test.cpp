// Recipes and names: what is equal, what differs, and how it is said.
#include "cache/format/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/format/exam.h"
#include "cache/format/format.h"
#include "cache/format/layout.h"
#include "common/cli/error.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(Recipe, OrderOfKeysDoesNotMatter) {
  Recipe a, b;
  a.features = Json::parse(R"({"x": 1, "y": {"p": 1, "q": [2, 3]}})");
  b.features = Json::parse(R"({"y": {"q": [2, 3], "p": 1}, "x": 1})");
  EXPECT_EQ(a.feature_digest(), b.feature_digest());
  EXPECT_THAT(differences(a, b), IsEmpty());
}

TEST(Recipe, StorageChangesOnlyTheCacheDigest) {
  Recipe a = make_recipe(), b = make_recipe();
  b.storage["frames"] = 8;
  EXPECT_EQ(a.feature_digest(), b.feature_digest());
  EXPECT_NE(a.cache_digest(), b.cache_digest());
  EXPECT_THAT(differences(a, b), ElementsAre("frames: cache has 12, now 8"));
}

TEST(Recipe, NotesComeBackAndCountForNothing) {
  const MemoryFolder folder;
  Recipe plain = make_recipe(), noted = plain;
  noted.notes["weights"] = "vit.safetensors";
  EXPECT_EQ(noted.cache_digest(), plain.cache_digest());
  EXPECT_THAT(differences(noted, plain), IsEmpty());
  for (const Recipe& recipe : {noted, plain}) {  // the second run goes on without
    ShardWriter writer(locate(folder / "x.cache"), recipe, 4, {});
    writer.add(make_exam(recipe.notes.empty() ? "b" : "a", recipe.notes.empty(), 2, 4));
    writer.finish();
  }
  EXPECT_EQ(CacheReader(folder / "x.cache").recipe().notes, noted.notes);
}

TEST(Recipe, DifferencesNameNestedAndMissingKeys) {
  const Json a = Json::parse(R"({"p": {"size": 224, "mean": [0.5]}, "old": {"k": true}, "e": {}})");
  const Json b = Json::parse(R"({"p": {"size": 392, "mean": [0.5]}, "new": "x"})");
  EXPECT_THAT(differences(a, b),
              ElementsAre("p.size: cache has 224, now 392", "old.k: cache has true, now nothing",
                          "e: cache has {}, now nothing", "new: cache has nothing, now \"x\""));
}

TEST(Recipe, ComesBackFromJsonOrIsRefused) {
  const Recipe recipe = make_recipe();
  EXPECT_EQ(recipe_from_json(to_json(recipe)).cache_digest(), recipe.cache_digest());
  for (const char* text : {"[]", "{}", R"({"features": 1, "storage": {}})",
                           R"({"features": {}, "storage": {}, "more": {}})"})
    EXPECT_THROW(recipe_from_json(Json::parse(text)), CacheError) << text;
}

TEST(Names, EscapeReversibly) {
  for (const std::string name :
       {"a", "a/b", "%", "%2F", ".", "..", ".x", "x.y", "größe", "tab\t", "a b"}) {
    const std::string escaped = escape_name(name);
    EXPECT_EQ(unescape_name(escaped), name);
    EXPECT_EQ(escaped.find('/'), std::string::npos);
    EXPECT_NE(escaped[0], '.');
  }
  EXPECT_EQ(escape_name("a/b"), "a%2Fb");
  for (const char* name : {"", "%", "%2", "%2f", "%zz", "%41", "a/b"})
    EXPECT_THROW(unescape_name(name), CacheError) << name;
}

TEST(Layout, ShardNamesSortAndAreRecognised) {
  EXPECT_EQ(shard_name(3, 12), "shard-0003-000012.h5");
  const auto parsed = parse_shard_name(shard_name(12345, 12345678));
  ASSERT_TRUE(parsed);
  EXPECT_EQ(parsed->worker, 12345u);
  EXPECT_EQ(parsed->number, 12345678u);
  for (const char* name :
       {"shard-0003-000012.h5.tmp", ".shard-0003-000012.h5.7-0.tmp", "shard-3-1.h5",
        "shard-000x-000012.h5", "x.h5", "shard-0003-000012-1.h5", ""})
    EXPECT_FALSE(parse_shard_name(name)) << name;
  EXPECT_EQ(locate("a/x.cache/").path, "a/x.cache");
  EXPECT_TRUE(locate("x.h5").single_file);
  EXPECT_EQ(locate("x.h5").shard_folder(), "x.h5.shards");
}

TEST(ColumnType, IsInferredFromAllValues) {
  const auto type = [](const std::vector<std::string>& values) {
    std::vector<ExamInfo> exams(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) exams[i].columns = {{"c", values[i]}};
    return std::string(column_type_name(infer_type(exams, "c")));
  };
  EXPECT_EQ(type({"1", "", "-20", "0"}), "integer");
  EXPECT_EQ(type({"1", "2.5", "1e3"}), "number");
  EXPECT_EQ(type({"1", "no"}), "text");
  EXPECT_EQ(type({"007"}), "text");
  EXPECT_EQ(type({"0.5"}), "number");
  EXPECT_EQ(type({"1", "NaN", "n/a", " 2"}), "integer");
  EXPECT_EQ(type({"nan"}), "text");
  EXPECT_EQ(type({"", ""}), "text");
}

}  // namespace
}  // namespace coldframe::cache
