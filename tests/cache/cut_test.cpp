// The cut, which enters a block of the ViT, is kept beside the features: written, read, packed,
// merged, pruned and refused.
#include "cache/format/recipe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "cache/store/pack.h"
#include "cache/tool/merge.h"
#include "cache/tool/prune.h"
#include "cache/tool/verify.h"
#include "common/cli/error.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

const std::vector<std::string> kViews = {"clean", "view1"};

struct Case {
  const char* name;
  Cut cut;
  const char* path;
};

std::vector<ExamFeatures> make_exams() {
  std::vector<ExamFeatures> exams;
  for (std::size_t i = 0; i < 4; ++i)
    exams.push_back(make_exam("E" + std::to_string(i), i, 1 + 3 * i, 5, kViews));
  return exams;
}

void expect_all(const CacheReader& cache, const std::vector<ExamFeatures>& exams) {
  ASSERT_EQ(cache.exams().size(), exams.size());
  for (const ExamFeatures& exam : exams) expect_equal(cache, exam);
}

class Cuts : public ::testing::TestWithParam<Case> {
 protected:
  Cuts() {
    for (ExamFeatures& exam : exams_) add_cut(exam, GetParam().cut);
  }
  static WriterOptions options() {
    WriterOptions options = one_exam_a_shard();
    options.storage = GetParam().cut.storage;
    return options;
  }
  const MemoryFolder folder_;
  const fs::path path_ = folder_ / GetParam().path;
  std::vector<ExamFeatures> exams_ = make_exams();
};

TEST_P(Cuts, AreReadAsTheyWereWritten) {
  write_cache(path_, exams_, options(), GetParam().cut);
  const CacheReader cache(path_);
  EXPECT_EQ(cache.cut(), GetParam().cut);
  EXPECT_EQ(cache.checksums(0).size(), 2 * kViews.size());
  expect_all(cache, exams_);
  EXPECT_TRUE(verify(locate(path_)).findings.empty());
  const std::vector<std::size_t> order{2, 0, 3, 1};
  std::vector<std::size_t> seen;
  cache.scan_cut(1, order, [&](std::size_t exam, std::span<const std::byte> rows) {
    std::vector<std::byte> expected(cache.exams()[exam].frames() * cache.cut()->row_bytes());
    cache.read_cut(exam, 1, expected);
    EXPECT_TRUE(std::ranges::equal(rows, expected));
    seen.push_back(exam);
  });
  EXPECT_EQ(seen, order);
}

TEST_P(Cuts, StayWithTheirExams) {
  write_cache(path_, exams_, options(), GetParam().cut);
  ExamInfo changed = exams_[2].info;
  changed.patient = "somebody else";
  update_metadata(locate(path_), {changed});
  exams_[2].info = changed;
  exams_[2].info.revision = 1;
  expect_all(CacheReader(path_), exams_);
  prune(locate(path_), {"E1"});
  exams_.erase(exams_.begin() + 1);
  expect_all(CacheReader(path_), exams_);
  merge_caches(locate(folder_ / "merged.h5"), {path_});
  expect_all(CacheReader(folder_ / "merged.h5"), exams_);
  EXPECT_TRUE(verify(locate(folder_ / "merged.h5")).findings.empty());
}

TEST_P(Cuts, AreLeftOutOfACopyWithoutThem) {
  write_cache(path_, exams_, options(), GetParam().cut);
  MergeOptions without;
  without.without_cut = true;
  merge_caches(locate(folder_ / "copy.h5"), {path_}, without);
  write_cache(folder_ / "plain.h5", make_exams(), options());
  EXPECT_EQ(CacheReader(folder_ / "copy.h5").cut(), std::nullopt);
  EXPECT_EQ(read_bytes(folder_ / "copy.h5"), read_bytes(folder_ / "plain.h5"));
}

// The shard's limit is smaller than any exam here: each is built on disk.
TEST_P(Cuts, OfExamsThatAreLargerThanAShard) {
  WriterOptions small = options(), large = options();
  small.max_shard_bytes = 100;
  large.max_shard_bytes = 1 << 22;
  write_cache(folder_ / "small.cache", exams_, small, GetParam().cut);
  write_cache(folder_ / "large.cache", exams_, large, GetParam().cut);
  expect_all(CacheReader(folder_ / "small.cache"), exams_);
  ASSERT_EQ(entries(folder_ / "small.cache"), entries(folder_ / "large.cache"));
  for (const std::string& name : entries(folder_ / "large.cache"))
    EXPECT_EQ(read_bytes(folder_ / "small.cache" / name),
              read_bytes(folder_ / "large.cache" / name));
}

TEST_P(Cuts, OfDamagedRowsAreRefused) {
  write_cache(folder_ / "x.h5", exams_, options(), GetParam().cut);
  const auto row = std::span(exams_[3].views[1].cut).first(GetParam().cut.row_bytes());
  const std::vector<std::byte> bytes = read_bytes(folder_ / "x.h5");
  const auto found = std::search(bytes.begin(), bytes.end(), row.begin(), row.end());
  ASSERT_NE(found, bytes.end());
  flip_byte(folder_ / "x.h5", static_cast<std::size_t>(found - bytes.begin()));
  const CacheReader cache(folder_ / "x.h5");
  std::vector<std::byte> rows(exams_[3].info.frames() * GetParam().cut.row_bytes());
  EXPECT_NO_THROW(cache.read_cut(3, 0, rows));
  EXPECT_NO_THROW(cache.features(3, "view1"));
  try {
    cache.read_cut(3, 1, rows);
    ADD_FAILURE() << "damaged rows were read";
  } catch (const CacheError& error) {
    EXPECT_THAT(error.what(), HasSubstr("exam 'E3': the cut rows of view view1 do not match"));
  }
  const VerifyReport report = verify(locate(folder_ / "x.h5"));
  ASSERT_EQ(report.findings.size(), 1u);
  EXPECT_EQ(report.findings[0].exam, "E3");
}

const Case kCases[] = {
    {"Tokens", {8, {5, 6}, DType::kFp16}, "x.cache"},
    {"TokensInOneFile", {1, {197, 40}, DType::kFp16}, "x.h5"},
    {"TokensAsFloat32", {11, {7, 4}, DType::kFp32}, "x.h5"},
    {"Pixels", {0, {12, 10, 3}, DType::kFp16}, "x.h5"},
};
INSTANTIATE_TEST_SUITE_P(All, Cuts, ::testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

TEST(Cut, IsNotThereWithoutOne) {
  const MemoryFolder folder;
  write_cache(folder / "x.h5", {make_exam("E0", 0, 2, 3)});
  const CacheReader cache(folder / "x.h5");
  EXPECT_EQ(cache.cut(), std::nullopt);
  std::vector<std::byte> rows(4);
  EXPECT_THROW(cache.read_cut(0, 0, rows), CacheError);
}

TEST(Cut, OfAnotherSizeIsRefused) {
  const Cut cut{3, {4, 5}, DType::kFp16};
  ExamFeatures exam = make_exam("E0", 0, 2, 3);
  const MemoryFolder folder;
  EXPECT_THROW(write_cache(folder / "x.h5", {exam}, {}, cut), DataError);
  add_cut(exam, cut);
  EXPECT_THROW(write_cache(folder / "y.h5", {exam}), DataError);
  exam.views[0].cut.pop_back();
  EXPECT_THROW(write_cache(folder / "z.h5", {exam}, {}, cut), DataError);
  add_cut(exam, cut);
  write_cache(folder / "u.h5", {exam}, {}, cut);
  std::vector<std::byte> rows(79);
  EXPECT_THROW(CacheReader(folder / "u.h5").read_cut(0, 0, rows), CacheError);
  rows.resize(80);
  EXPECT_THROW(CacheReader(folder / "u.h5").read_cut(0, 1, rows), CacheError);
}

TEST(Cut, ThatIsNotFiniteFailsTheExam) {
  for (const auto& [storage, infinity] :
       {std::pair(DType::kFp16, 0x7c00u), std::pair(DType::kFp32, 0x7f800000u)}) {
    const Cut cut{3, {4, 5}, storage};
    ExamFeatures exam = make_exam("E0", 0, 5, 3);
    add_cut(exam, cut);
    WriterOptions options;
    options.storage = storage;
    const MemoryFolder folder;
    const auto put = [&, value = infinity, bytes = bytes_of(storage)](std::size_t frame) {
      std::memcpy(&exam.views[0].cut[frame * cut.row_bytes() + 8], &value, bytes);
    };
    put(3);  // missing
    write_cache(folder / "x.h5", {exam}, options, cut);
    put(4);
    try {
      write_cache(folder / "y.h5", {exam}, options, cut);
      ADD_FAILURE() << "was stored";
    } catch (const DataError& error) {
      EXPECT_THAT(error.what(), HasSubstr("exam 'E0', frame 4: what enters block 3 has a value"));
    }
  }
}

TEST(Cut, OfARecipeMustMakeSense) {
  for (const char* text :
       {"8", "{}", R"({"block": 8})", R"({"block": -1, "shape": [4, 5]})",
        R"({"block": 8, "shape": [4]})", R"({"block": 8, "shape": [4, 5, 3]})",
        R"({"block": 0, "shape": [4, 5]})", R"({"block": 0, "shape": [4, 5, 4]})",
        R"({"block": 8, "shape": [4, 0]})", R"({"block": 8, "shape": [4, "5"]})",
        R"({"block": 8, "shape": [1048576, 1048576]})", R"({"block": 8.5, "shape": [4, 5]})",
        R"({"block": 8, "shape": [4, 5], "more": 1})"}) {
    Recipe recipe = make_recipe();
    recipe.storage["cut"] = parse_json(text, "the test");
    EXPECT_THROW(find_cut(recipe, DType::kFp16), CacheError) << text;
  }
  const Cut cut{8, {197, 384}, DType::kFp16};
  EXPECT_EQ(find_cut(with_cut(make_recipe(), cut), DType::kFp16), cut);
  EXPECT_EQ(cut.row_bytes(), 151296u);
}

}  // namespace
}  // namespace coldframe::cache
