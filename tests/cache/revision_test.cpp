// One of several versions of an exam holds; new metadata need no new features.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cache/store/pack.h"
#include "cache/tool/merge.h"
#include "cache/tool/verify.h"
#include "common/cli/error.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Kind {
  const char* name;
  const char* path;
  bool thumbnails;
};

void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

class Revisions : public ::testing::TestWithParam<Kind> {
 protected:
  MemoryFolder folder_;
  fs::path path() const { return folder_ / GetParam().path; }
};

TEST_P(Revisions, TheHighestHolds) {
  ExamFeatures old = make_exam("a", 0, 3, 4), now = make_exam("a", 5, 4, 4);
  now.info.revision = 1;
  write_cache(path(), {now});
  write_cache(path(), {old});  // written later, yet older
  const CacheReader cache(path());
  EXPECT_EQ(cache.exams().size(), 1u);
  expect_equal(cache, now);
  EXPECT_EQ(cache.next_revision("a"), 2u);
}

// The files' times say the opposite, as after a copy.
TEST(Merge, PrefersTheHigherRevisionWhateverTheFilesTimes) {
  MemoryFolder folder;
  ExamFeatures old = make_exam("a", 0, 3, 4), now = make_exam("a", 0, 4, 4),
               same = make_exam("a", 0, 2, 4);
  now.info.revision = same.info.revision = 1;
  write_cache(folder / "now.h5", {now});
  write_cache(folder / "old.h5", {old});
  write_cache(folder / "same.h5", {same});
  const MergeOptions newest{.prefer = Prefer::kNewest};
  merge_caches(locate(folder / "merged.h5"), {folder / "old.h5", folder / "now.h5"}, newest);
  expect_equal(CacheReader(folder / "merged.h5"), now);
  EXPECT_THROW(
      merge_caches(locate(folder / "refused.h5"), {folder / "now.h5", folder / "same.h5"}, newest),
      CacheError);
  EXPECT_FALSE(fs::exists(folder / "refused.h5"));
}

TEST_P(Revisions, ALaterOneVoidsFailures) {
  {
    ShardWriter writer(locate(path()), make_recipe(), 4, {});
    writer.add_failure({"a", 0, 0, "a.gif", "first try"});
    writer.add_failure({"b", 1, 0, "b.gif", "first try"});
    writer.add_failure({"c", 2, 0, "c.gif, frame 1", "one bad frame"});
    writer.add(make_exam("c", 2, 4, 4));
    writer.finish();
  }
  {
    ShardWriter writer(locate(path()), make_recipe(), 4, {});
    ExamFeatures a = make_exam("a", 0, 4, 4);
    a.info.revision = 1;
    writer.add(a);
    writer.add_failure({"b", 1, 1, "b.gif", "second try"});
    writer.finish();
  }
  const CacheReader cache(path());
  std::vector<std::string> reasons;
  for (const Failure& failure : cache.failures()) reasons.push_back(failure.reason);
  EXPECT_THAT(reasons, ElementsAre("second try", "one bad frame"));
  EXPECT_EQ(cache.next_revision("b"), 2u);
}

TEST_P(Revisions, MetadataChangeWithoutFeatures) {
  WriterOptions options = one_exam_a_shard();
  options.precision = "bf16";
  std::vector<ExamFeatures> exams;
  for (std::size_t i = 0; i < 3; ++i) {
    exams.push_back(make_exam(std::to_string(i), i, 4, 4));
    if (GetParam().thumbnails) add_thumbnails(exams[i]);
  }
  write_cache(path(), exams, options);
  exams[1].info.patient = "someone else";
  exams[1].info.columns[0].value = "maybe";
  exams[1].info.columns.push_back({"new", "x"});
  const ShardWriter open_meanwhile(
      locate(path()), GetParam().thumbnails ? make_recipe_with_thumbnails() : make_recipe(), 4, {});
  update_metadata(locate(path()), {exams[1].info});
  exams[1].info.revision = 1;
  const CacheReader cache(path());
  EXPECT_EQ(cache.exams().size(), 3u);
  for (const ExamFeatures& exam : exams) expect_equal(cache, exam);
  EXPECT_THAT(cache.precisions(), ElementsAre("bf16"));
  EXPECT_EQ(cache.shard_count(), locate(path()).single_file ? 1u : 3u);
  EXPECT_THAT(verify(locate(path())).findings, IsEmpty());
}

TEST_P(Revisions, MetadataOfOtherFramesOrExamsAreRefused) {
  ExamFeatures exam = make_exam("a", 0, 4, 4);
  write_cache(path(), {exam});
  const auto before = entries(folder_.path());
  EXPECT_THROW(update_metadata(locate(path()), {make_exam("b", 0, 4, 4).info}), CacheError);
  EXPECT_THROW(update_metadata(locate(path()), {make_exam("a", 0, 5, 4).info}), CacheError);
  EXPECT_EQ(entries(folder_.path()), before);
  expect_equal(CacheReader(path()), exam);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Revisions,
                         ::testing::Values(Kind{"File", "x.h5", false},
                                           Kind{"Folder", "x.cache", false},
                                           Kind{"FileWithThumbnails", "x.h5", true},
                                           Kind{"FolderWithThumbnails", "x.cache", true}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Duplicates, AfterACrashInPackingAreToleratedAndFound) {
  const MemoryFolder folder;
  const ExamFeatures exam = make_exam("a", 0, 4, 4), next = make_exam("b", 1, 4, 4);
  write_cache(folder / "x.h5", {exam});
  fs::create_directory(folder / "x.h5.shards");
  fs::copy(folder / "x.h5", folder / "x.h5.shards/shard-0000-000000.h5");
  expect_equal(CacheReader(folder / "x.h5"), exam);
  const VerifyReport report = verify(locate(folder / "x.h5"));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_THAT(report.findings[0].problem, HasSubstr("stored twice, with equal content"));
  write_cache(folder / "x.h5", {next});
  EXPECT_THAT(entries(folder.path()), ElementsAre("x.h5"));
  expect_equal(CacheReader(folder / "x.h5"), exam);
  EXPECT_THAT(verify(locate(folder / "x.h5")).findings, IsEmpty());
}

TEST(Verify, NamesMissingAndRepeatedPlaces) {
  const MemoryFolder folder;
  write_cache(folder / "x.h5",
              {make_exam("a", 1, 2, 4), make_exam("b", 4, 2, 4), make_exam("c", 4, 2, 4)});
  std::vector<std::string> problems;
  for (const Finding& finding : verify(locate(folder / "x.h5")).findings)
    problems.push_back(finding.problem);
  ASSERT_EQ(problems.size(), 2u);
  EXPECT_THAT(problems[0], HasSubstr("has the place 4 of the input"));
  EXPECT_THAT(problems[1], HasSubstr("places 0, 2–3 have neither exam nor failure (3 missing)"));
}

TEST(Verify, FindsShardsOfAnotherRecipe) {
  const MemoryFolder folder;
  write_cache(folder / "x.cache", {make_exam("a", 0, 2, 4)});
  {
    ShardWriter writer(locate(folder / "y.cache"), make_recipe("bilinear"), 4, {});
    writer.add(make_exam("b", 1, 2, 4));
    writer.finish();
  }
  fs::copy(folder / "y.cache" / shard_name(0, 0), folder / "x.cache" / shard_name(0, 1));
  const VerifyReport report = verify(locate(folder / "x.cache"));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_THAT(report.findings[0].problem,
              HasSubstr("preprocessing.interpolation: cache has \"bicubic\", now \"bilinear\""));
  EXPECT_THROW(CacheReader(folder / "x.cache"), CacheError);
}

}  // namespace
}  // namespace coldframe::cache
