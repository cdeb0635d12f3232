// Exams are taken out: nothing of them is left in any file, and nothing else changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "cache/store/lock.h"
#include "cache/store/pack.h"
#include "cache/tool/merge.h"
#include "cache/tool/prune.h"
#include "cache/tool/verify.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::unordered_set<std::string> kWithdrawn = {"withdrawn", "withdrawn and broken"};

bool holds(const fs::path& file, const std::string& bytes) {
  const std::vector<std::byte> content = read_bytes(file);
  return std::search(
             content.begin(), content.end(), reinterpret_cast<const std::byte*>(bytes.data()),
             reinterpret_cast<const std::byte*>(bytes.data() + bytes.size())) != content.end();
}

class Pruning : public ::testing::TestWithParam<const char*> {
 protected:
  // Exams a, withdrawn, b with features and thumbnails in one shard, a second revision of two of
  // them in another, and two failures.
  void write(const fs::path& path) {
    exams_ = {make_exam("a", 0, 5, 40), make_exam("withdrawn", 1, 5, 40), make_exam("b", 3, 5, 40)};
    for (float& value : exams_[1].views[0].values)
      if (!std::isnan(value)) value = 3.25f;
    for (ExamFeatures& exam : exams_) add_thumbnails(exam);
    exams_[1].thumbnails[0] = "these are the pixels";
    {
      ShardWriter writer(locate(path), make_recipe_with_thumbnails(), 40, {});
      for (const ExamFeatures& exam : exams_) writer.add(exam);
      writer.add_failure({"withdrawn and broken", 2, 0, "withdrawn.gif", "cannot be decoded"});
      writer.add_failure({"broken", 4, 0, "broken.gif", "cannot be decoded"});
      writer.finish();
    }
    for (ExamFeatures& exam : exams_) exam.info.columns[0].value = "new label";
    update_metadata(locate(path), {exams_[1].info, exams_[2].info});
    exams_[0].info.columns[0].value = "no";
    exams_[1].info.revision = exams_[2].info.revision = 1;
  }

  void expect_untouched_rest(const CacheReader& cache) const {
    expect_equal(cache, exams_[0]);
    expect_equal(cache, exams_[2]);
    EXPECT_EQ(cache.failures().back().exam, "broken");
  }

  void expect_gone(const fs::path& folder, const fs::path& path) const {
    const CacheReader cache(path);
    EXPECT_EQ(cache.find("withdrawn"), CacheReader::npos);
    EXPECT_EQ(cache.exams().size(), 2u);
    EXPECT_EQ(cache.failures().size(), 1u);
    expect_untouched_rest(cache);
    const VerifyReport report = verify(locate(path));
    EXPECT_TRUE(report.findings.empty()) << report.findings[0].problem;
    const std::string feature = "\x80\x42\x80\x42\x80\x42\x80\x42";  // 3.25 as float16
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
      if (!entry.is_regular_file()) continue;
      EXPECT_TRUE(entry.path().filename().string().ends_with(".h5")) << entry.path();
      for (const std::string& secret : {std::string("withdrawn"), feature, exams_[1].thumbnails[0]})
        EXPECT_FALSE(holds(entry.path(), secret)) << entry.path();
    }
  }

  std::vector<ExamFeatures> exams_;
};

TEST_P(Pruning, LeavesNothingOfTheExamsAndChangesNoOther) {
  const MemoryFolder folder;
  const fs::path path = folder / GetParam();
  write(path);
  const PruneReport report = prune(locate(path), {"withdrawn", "withdrawn and broken", "nobody"});
  EXPECT_EQ(report.exams, 1u);
  EXPECT_EQ(report.failures, 1u);
  EXPECT_EQ(report.left, 2u);
  EXPECT_THAT(report.unknown, ElementsAre("nobody"));
  expect_gone(folder.path(), path);
}

TEST_P(Pruning, KilledBeforeAnyOperationLeavesEachExamAsItWasOrGone) {
  int operations = 0;
  for (;; ++operations) {
    SCOPED_TRACE("killed before operation " + std::to_string(operations));
    const MemoryFolder folder;
    const fs::path path = folder / GetParam();
    write(path);
    const pid_t child = ::fork();
    if (child == 0) {
      int count = 0;
      set_file_fault_hook([&](std::string_view, const fs::path&) {
        if (count++ == operations) ::_exit(0);
        return 0;
      });
      prune(locate(path), kWithdrawn);
      ::_exit(1);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << status;
    {
      const CacheReader cache(path);
      expect_untouched_rest(cache);
      if (cache.find("withdrawn") != CacheReader::npos) expect_equal(cache, exams_[1]);
    }
    if (WEXITSTATUS(status) == 1) break;
    prune(locate(path), kWithdrawn);
    expect_gone(folder.path(), path);
  }
  EXPECT_GT(operations, 8);
}

TEST_P(Pruning, PlacesStayFreeThroughPackingAndMetadata) {
  const MemoryFolder folder;
  const fs::path path = folder / GetParam();
  write(path);
  prune(locate(path), kWithdrawn);
  exams_[0].info.columns[0].value = "newer";
  update_metadata(locate(path), {exams_[0].info});
  exams_[0].info.revision = 1;
  expect_gone(folder.path(), path);
  merge_caches(locate(folder / "copy.h5"), {path});
  EXPECT_THAT(verify(locate(folder / "copy.h5")).findings, IsEmpty());
}

TEST_P(Pruning, RefusesToLeaveNothingAndToDisturbAWriter) {
  const MemoryFolder folder;
  const fs::path path = folder / GetParam();
  write(path);
  EXPECT_THROW(prune(locate(path), {"a", "b", "withdrawn"}), ConfigError);
  WriterOptions options;
  options.worker = 3;
  const ShardWriter at_work(locate(path), make_recipe_with_thumbnails(), 40, options);
  EXPECT_THAT(writers_at_work(locate(path)), ElementsAre(HasSubstr("process ")));
  EXPECT_THROW(prune(locate(path), kWithdrawn), CacheError);
  expect_equal(CacheReader(path), exams_[1]);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Pruning, ::testing::Values("x.h5", "x.cache"),
                         [](const auto& each) {
                           return std::string(each.index == 0 ? "File" : "Folder");
                         });

TEST(Merging, ALaterRevisionWithOtherContentIsAConflictToo) {
  const MemoryFolder folder;
  ExamFeatures old = make_exam("a", 0, 3, 4), now = old;
  now.info.revision = 2;
  now.info.columns[0].value = "changed";
  write_cache(folder / "old.h5", {old});
  write_cache(folder / "now.h5", {now});
  const std::vector<fs::path> inputs = {folder / "old.h5", folder / "now.h5"};
  EXPECT_THROW(merge_caches(locate(folder / "m.h5"), inputs), CacheError);
  EXPECT_FALSE(fs::exists(folder / "m.h5"));
  MergeOptions options;
  options.prefer = Prefer::kNewest;
  fs::last_write_time(inputs[0], fs::last_write_time(inputs[1]) + std::chrono::hours(1));
  EXPECT_EQ(merge_caches(locate(folder / "m.h5"), inputs, options).conflicts.size(), 1u);
  expect_equal(CacheReader(folder / "m.h5"), now);
}

}  // namespace
}  // namespace coldframe::cache
