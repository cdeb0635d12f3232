// What goes into a cache comes out of it, and what cannot go in is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "cache/tool/verify.h"
#include "common/cli/error.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RoundTrip : public ::testing::TestWithParam<const char*> {
 protected:
  MemoryFolder folder_;
  std::filesystem::path path() const { return folder_ / GetParam(); }
};

TEST_P(RoundTrip, KeepsEveryField) {
  std::vector<ExamFeatures> exams;
  for (std::size_t i = 0; i < 5; ++i)
    exams.push_back(make_exam("exam " + std::to_string(i), i, 1 + 3 * i, 6, {"clean", "flip/1"}));
  exams[1].info.patient = "";
  exams[1].info.start_time = kUnknownTime;
  exams[1].info.time_s[2] = kUnknownTime;
  exams[2].info.id = "Müller 患者 🫀";
  exams[2].info.columns = {{"a/b", "1"}, {".", ""}, {"%41", "é"}, {"größe", "x\ny"}, {"..", "2"}};
  for (ExamFeatures& exam : exams)
    exam.info.frame_columns = {{"phase/art", std::vector<std::string>(exam.info.frames(), "ä")}};
  exams[4].info.revision = 7;
  write_cache(path(), exams);

  const CacheReader cache(path());
  ASSERT_EQ(cache.exams().size(), exams.size());
  for (const ExamFeatures& exam : exams) expect_equal(cache, exam);
  EXPECT_THAT(cache.views(), ElementsAre("clean", "flip/1"));
  EXPECT_THAT(cache.precisions(), ElementsAre("fp32"));
  EXPECT_THAT(cache.column_names(), ElementsAre("label", "age", "a/b", ".", "%41", "größe", ".."));
  EXPECT_EQ(cache.dimension(), 6);
  EXPECT_EQ(cache.recipe().cache_digest(), make_recipe().cache_digest());
  EXPECT_THAT(cache.failures(), IsEmpty());
  EXPECT_EQ(cache.find("nobody"), CacheReader::npos);
}

TEST_P(RoundTrip, KeepsFloat32BitsAndSortsByOrdinal) {
  std::vector<ExamFeatures> exams{make_exam("b", 1, 3, 2), make_exam("a", 0, 2, 2)};
  exams[0].views[0].values = {1e30f, -1e-40f, 0.1f, -0.0f, 3.0f, 65520.0f};
  WriterOptions options;
  options.storage = DType::kFp32;
  write_cache(path(), exams, options);
  const CacheReader cache(path());
  EXPECT_EQ(cache.exams()[0].id, "a");
  expect_equal(cache, exams[0]);
  EXPECT_TRUE(std::signbit(cache.features(1)[3]));
}

TEST_P(RoundTrip, RollsOverIntoSeveralShards) {
  WriterOptions options;
  options.max_shard_exams = 2;
  std::vector<std::size_t> published;
  std::vector<ExamFeatures> exams;
  {
    ShardWriter writer(locate(path()), make_recipe(), 4, options);
    writer.on_published = [&](std::size_t n) { published.push_back(n); };
    for (std::size_t i = 0; i < 5; ++i) {
      exams.push_back(make_exam(std::to_string(i), i, 5, 4));
      writer.add(exams.back());
    }
    writer.finish();
  }
  EXPECT_THAT(published, ElementsAre(2, 2, 1));
  const CacheReader cache(path());
  for (const ExamFeatures& exam : exams) expect_equal(cache, exam);
  EXPECT_EQ(cache.shard_count(), locate(path()).single_file ? 1u : 3u);
}

TEST_P(RoundTrip, KeepsThumbnailsWhichCountAsBytesOfAShard) {
  WriterOptions options;
  options.max_shard_bytes = 3000;
  std::vector<ExamFeatures> exams;
  for (std::size_t i = 0; i < 5; ++i) {
    exams.push_back(make_exam(std::to_string(i), i, 5, 4));
    add_thumbnails(exams[i]);
  }
  exams[2].thumbnails[0] = std::string(200000, '\x7f');  // more than a chunk
  exams[3].thumbnails[4] = std::string(1, '\0');
  write_cache(path(), exams, options);
  const CacheReader cache(path());
  std::size_t bytes = 0;
  for (const ExamFeatures& exam : exams) {
    expect_equal(cache, exam);
    for (const std::string& file : exam.thumbnails) bytes += file.size();
  }
  EXPECT_EQ(cache.thumbnail_bytes(), bytes);
  EXPECT_EQ(cache.shard_count(), locate(path()).single_file ? 1u : 3u);
  const VerifyReport report = verify(locate(path()));
  EXPECT_THAT(report.findings, IsEmpty());
  EXPECT_EQ(report.thumbnails, 20u);  // every fourth frame is missing
}

TEST_P(RoundTrip, AnExamWithoutFramesThatArePresentHasEmptyThumbnails) {
  ExamFeatures exam = make_exam("a", 0, 2, 4);
  exam.info.present = {0, 0};
  exam.views[0].values.assign(8, std::numeric_limits<float>::quiet_NaN());
  exam.thumbnails = {"", ""};
  write_cache(path(), {exam});
  expect_equal(CacheReader(path()), exam);
  EXPECT_THAT(verify(locate(path())).findings, IsEmpty());
}

TEST_P(RoundTrip, BytesBoundAShardToo) {
  WriterOptions options;
  options.max_shard_bytes = 4000;
  std::vector<ExamFeatures> exams;
  for (std::size_t i = 0; i < 6; ++i) exams.push_back(make_exam(std::to_string(i), i, 8, 100));
  write_cache(path(), exams, options);
  const CacheReader cache(path());
  EXPECT_EQ(cache.exams().size(), 6u);
  EXPECT_EQ(cache.shard_count(), locate(path()).single_file ? 1u : 3u);
}

TEST_P(RoundTrip, FailuresAloneMakeACache) {
  {
    ShardWriter writer(locate(path()), make_recipe(), 4, {});
    writer.add_failure({"x", 3, 0, "x/1.png", "cannot be decoded \xff"});
    writer.finish();
  }
  {
    const CacheReader cache(path());
    EXPECT_THAT(cache.exams(), IsEmpty());
    ASSERT_EQ(cache.failures().size(), 1u);
    EXPECT_EQ(cache.failures()[0].reason, "cannot be decoded ?");
    EXPECT_EQ(cache.next_revision("x"), 1u);
    EXPECT_EQ(cache.next_revision("y"), 0u);
  }
  // Later exams may bring views that the shard of failures did not know of.
  write_cache(path(), {make_exam("y", 0, 2, 4, {"flip", "clean"})});
  EXPECT_THAT(CacheReader(path()).views(), ElementsAre("clean", "flip"));
}

TEST_P(RoundTrip, ExtendsACacheThatIsThere) {
  const ExamFeatures first = make_exam("a", 1, 2, 4), second = make_exam("b", 0, 3, 4);
  write_cache(path(), {first});
  write_cache(path(), {second});
  const CacheReader cache(path());
  expect_equal(cache, first);
  expect_equal(cache, second);
  EXPECT_EQ(cache.exams()[0].id, "b");
}

TEST_P(RoundTrip, AWriterWithoutExamsLeavesNothing) {
  { ShardWriter writer(locate(path()), make_recipe(), 4, {}); }
  EXPECT_THAT(entries(folder_.path()), IsEmpty());
  {
    ShardWriter writer(locate(path()), make_recipe(), 4, {});
    writer.add(make_exam("a", 0, 2, 4));  // abandoned
  }
  EXPECT_THAT(entries(folder_.path()), IsEmpty());
}

INSTANTIATE_TEST_SUITE_P(BothKinds, RoundTrip, ::testing::Values("x.h5", "x.cache"),
                         [](const auto& each) {
                           return std::string(each.param) == "x.h5" ? "File" : "Folder";
                         });

struct BadExam {
  const char* name;
  void (*spoil)(ExamFeatures&);
  const char* message;
};

class Refuses : public ::testing::TestWithParam<BadExam> {};

TEST_P(Refuses, WithAMessageAndGoesOn) {
  const MemoryFolder folder;
  const ExamFeatures good = make_exam("good", 0, 5, 4);
  ExamFeatures bad = make_exam("bad", 1, 5, 4);
  GetParam().spoil(bad);
  {
    ShardWriter writer(locate(folder / "x.h5"), make_recipe(), 4, {});
    writer.add(good);
    try {
      writer.add(bad);
      ADD_FAILURE() << "was accepted";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr(GetParam().message));
    }
    writer.finish();
  }
  const CacheReader cache(folder / "x.h5");
  EXPECT_EQ(cache.exams().size(), 1u);
  expect_equal(cache, good);
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

const BadExam kBadExams[] = {
    {"NoFrames",
     [](ExamFeatures& e) {
       e = {};
       e.info.id = "bad";
       e.views = {{"clean", {}}};
     },
     "exam 'bad' has no frames"},
    {"NoId", [](ExamFeatures& e) { e.info.id = ""; }, "without an id"},
    {"BeyondFloat16", [](ExamFeatures& e) { e.views[0].values[5] = -65520.f; },
     "exam 'bad', frame 1: a feature is -65520, beyond float16's range (±65504); use --store "
     "float32"},
    {"Infinite", [](ExamFeatures& e) { e.views[0].values[0] = kInfinity; }, "a feature is inf"},
    {"NotANumber", [](ExamFeatures& e) { e.views[0].values[0] = NAN; }, "a feature is nan"},
    {"TooFewValues", [](ExamFeatures& e) { e.views[0].values.pop_back(); },
     "19 feature values where 5 × 4 were expected"},
    {"OtherView",
     [](ExamFeatures& e) {
       e.views.push_back({"flip", e.views[0].values});
     },
     "other views than the cache"},
    {"UnexpectedThumbnails", [](ExamFeatures& e) { add_thumbnails(e); },
     "5 thumbnails where 0 were expected"},
    {"NoCleanView", [](ExamFeatures& e) { e.views[0].view = "flip"; }, "no view 'clean'"},
    {"TooFewTimes", [](ExamFeatures& e) { e.info.time_s.pop_back(); }, "4 values of time_s"},
    {"ColumnTwice", [](ExamFeatures& e) { e.info.columns.push_back(e.info.columns[0]); },
     "column 'label' occurs twice"},
    {"ColumnWithoutName", [](ExamFeatures& e) { e.info.columns[0].name = ""; }, "must have 1 to"},
    {"NotUtf8", [](ExamFeatures& e) { e.info.columns[0].value = "\xc3("; }, "is not UTF-8"},
    {"NulCharacter", [](ExamFeatures& e) { e.info.patient = std::string("a\0b", 3); }, "NUL"},
    {"LongText", [](ExamFeatures& e) { e.info.columns[0].value = std::string(70000, 'x'); },
     "is too long"},
};
INSTANTIATE_TEST_SUITE_P(Exams, Refuses, ::testing::ValuesIn(kBadExams),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Writer, RefusesThumbnailsOfOtherFrames) {
  const MemoryFolder folder;
  ExamFeatures exam = make_exam("a", 0, 5, 4);
  add_thumbnails(exam);
  ShardWriter writer(locate(folder / "x.h5"), make_recipe_with_thumbnails(), 4, {});
  const auto refusal = [&](const std::vector<std::string>& thumbnails) {
    ExamFeatures changed = exam;
    changed.thumbnails = thumbnails;
    return coldframe::testing::message_of<DataError>([&] { writer.add(changed); });
  };
  EXPECT_THAT(refusal({}), HasSubstr("exam 'a': 0 thumbnails where 5 were expected"));
  EXPECT_THAT(refusal({"x", "", "x", "", "x"}),
              HasSubstr("frame 1: a frame that is there has no thumbnail"));
  EXPECT_THAT(refusal({"x", "x", "x", "x", "x"}),
              HasSubstr("frame 3: a frame that is missing has a thumbnail"));
  writer.add(exam);
  writer.finish();
  expect_equal(CacheReader(folder / "x.h5"), exam);
}

TEST(Writer, WithOtherThumbnailsIsRefusedWithTheDifference) {
  const MemoryFolder folder;
  write_cache(folder / "x.h5", {make_exam("a", 0, 2, 4)});
  EXPECT_THAT(coldframe::testing::message_of<CacheError>([&] {
                ShardWriter(locate(folder / "x.h5"), make_recipe_with_thumbnails(), 4, {});
              }),
              HasSubstr("thumbnails: cache has nothing, now 96"));
}

TEST(Writer, OfAnotherRecipeIsRefusedWithTheDifferences) {
  const MemoryFolder folder;
  write_cache(folder / "x.h5", {make_exam("a", 0, 2, 4)});
  try {
    ShardWriter writer(locate(folder / "x.h5"), make_recipe("bilinear"), 5, {});
    FAIL() << "was accepted";
  } catch (const CacheError& error) {
    EXPECT_THAT(error.what(),
                HasSubstr("preprocessing.interpolation: cache has \"bicubic\", now \"bilinear\""));
    EXPECT_THAT(error.what(), HasSubstr("dimension: cache has 4, now 5"));
  }
  EXPECT_THAT(entries(folder.path()), ElementsAre("x.h5"));
}

TEST(Writer, IsTheOnlyOneOfItsWorker) {
  const MemoryFolder folder;
  const Location location = locate(folder / "x.cache");
  WriterOptions other;
  other.worker = 1;
  ShardWriter first(location, make_recipe(), 4, {});
  ShardWriter second(location, make_recipe(), 4, other);
  try {
    ShardWriter third(location, make_recipe(), 4, {});
    FAIL() << "was accepted";
  } catch (const CacheError& error) {
    EXPECT_THAT(error.what(), HasSubstr("x.cache is already being written"));
    EXPECT_THAT(error.what(), HasSubstr("process " + std::to_string(::getpid())));
  }
}

TEST(Writer, SeveralWorkersFinishOneFile) {
  const MemoryFolder folder;
  const Location location = locate(folder / "x.h5");
  WriterOptions other;
  other.worker = 1;
  other.precision = "bf16";
  {
    ShardWriter first(location, make_recipe(), 4, {}), second(location, make_recipe(), 4, other);
    first.add(make_exam("a", 0, 2, 4));
    second.add(make_exam("b", 1, 2, 4));
    first.finish();
    second.finish();
  }
  EXPECT_THAT(entries(folder.path()), ElementsAre("x.h5"));
  const CacheReader cache(folder / "x.h5");
  EXPECT_EQ(cache.exams().size(), 2u);
  EXPECT_THAT(cache.precisions(), ElementsAre("fp32", "bf16"));
}

TEST(Writer, RefusesWhatStandsInItsWay) {
  const MemoryFolder folder;
  std::filesystem::create_directory(folder / "folder.h5");
  write_bytes(folder / "file.cache", {});
  write_bytes(folder / "other.h5", std::vector<std::byte>(100));
  EXPECT_THROW(ShardWriter(locate(folder / "folder.h5"), make_recipe(), 4, {}), CacheError);
  EXPECT_THROW(ShardWriter(locate(folder / "file.cache"), make_recipe(), 4, {}), CacheError);
  EXPECT_THROW(ShardWriter(locate(folder / "other.h5"), make_recipe(), 4, {}), CacheError);
  EXPECT_THAT(entries(folder.path()), ElementsAre("file.cache", "folder.h5", "other.h5"));
}

}  // namespace
}  // namespace coldframe::cache
