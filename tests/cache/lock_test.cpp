#include "cache/store/lock.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cache/store/reader.h"
#include "cache/store/writer.h"
#include "cache/tool/merge.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;

class Locks : public ::testing::TestWithParam<const char*> {
 protected:
  ~Locks() override { set_file_fault_hook({}); }
  Location place() const { return locate(folder_ / GetParam()); }
  MemoryFolder folder_;
};

TEST_P(Locks, AJobWithoutPartsAndPartsKeepEachOtherOut) {
  {
    const WriterLock one = lock_part(place()), other = lock_part(place());
    EXPECT_THAT(message_of<CacheError>([&] { lock_writer(place(), 0); }),
                HasSubstr("is already being written by process "));
    EXPECT_THROW(lock_where_possible(place()), CacheError);
  }
  const WriterLock whole = lock_writer(place(), 0);
  EXPECT_THROW(lock_part(place()), CacheError);
  EXPECT_THROW(ShardWriter(place(), make_recipe(), 4, {}), CacheError);
  ShardWriter(place(), make_recipe(), 4, {}, whole.get());
}

TEST_P(Locks, TheNextHolderRemovesWhatAKilledOneLeft) {
  const pid_t child = ::fork();
  if (child == 0) {
    const WriterLock lock = lock_writer(place(), 0);
    for (const std::uint64_t number : {0, 7})
      new AtomicFile(place().shard_folder() / shard_name(0, number));
    ::_exit(0);
  }
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(entries(place().shard_folder()).size(), 3u);
  lock_writer(place(), 0);
  EXPECT_THAT(entries(folder_.path()), ElementsAre());  // the folder too
}

TEST_P(Locks, AShardReplacesNoOther) {
  const ExamFeatures exam = make_exam("a", 0, 3, 4), other = make_exam("b", 1, 3, 4);
  write_cache(folder_ / "other.cache", {other});
  {
    ShardWriter writer(place(), make_recipe(), 4, {});
    fs::copy(folder_ / "other.cache" / shard_name(0, 0),
             place().shard_folder() / shard_name(0, 0));  // a writer whose lock was not seen
    writer.add(exam);
    writer.finish();
  }
  expect_equal(CacheReader(place().path), exam);
  EXPECT_EQ(CacheReader(place().path).exams().size(), 2u);
}

INSTANTIATE_TEST_SUITE_P(Kinds, Locks, ::testing::Values("x.h5", "x.cache"),
                         [](const auto& each) { return each.index == 0 ? "File" : "Folder"; });

TEST(Outputs, AFileThatAppearsIsNeitherPackedNorMergedOver) {
  const MemoryFolder folder;
  const ExamFeatures exam = make_exam("a", 0, 3, 4);
  write_cache(folder / "source.h5", {exam});
  const std::vector<std::byte> thesis(100, std::byte{'t'});
  set_file_fault_hook([&](std::string_view name, const fs::path& path) {
    if (name == "fsync" && path.filename().string().starts_with(".x.h5."))
      write_bytes(folder / "x.h5", thesis);
    return 0;
  });
  const std::string appeared = "appeared while this program ran";
  EXPECT_THAT(message_of<SystemError>([&] { write_cache(folder / "x.h5", {exam}); }),
              HasSubstr(appeared));
  EXPECT_EQ(read_bytes(folder / "x.h5"), thesis);
  fs::remove(folder / "x.h5");
  expect_equal(CacheReader(folder / "x.h5"), exam);  // its shards are there
  fs::remove_all(folder / "x.h5.shards");
  EXPECT_THAT(message_of<SystemError>(
                  [&] { merge_caches(locate(folder / "x.h5"), {folder / "source.h5"}); }),
              HasSubstr(appeared));
  EXPECT_EQ(read_bytes(folder / "x.h5"), thesis);
  set_file_fault_hook({});
  EXPECT_THAT(entries(folder.path()), ElementsAre("source.h5", "x.h5"));
}

TEST(Outputs, AMergeStaysOutOfACacheThatIsBeingWritten) {
  const MemoryFolder folder;
  write_cache(folder / "source.h5", {make_exam("a", 0, 3, 4)});
  const ShardWriter at_work(locate(folder / "x.h5"), make_recipe(), 4, {});
  EXPECT_THAT(message_of<CacheError>(
                  [&] { merge_caches(locate(folder / "x.h5"), {folder / "source.h5"}); }),
              HasSubstr("is already being written by"));
}

TEST(Outputs, AMergeRemovesWhatAKilledOneLeft) {
  const MemoryFolder folder;
  write_cache(folder / "source.h5", {make_exam("a", 0, 3, 4)});
  const pid_t child = ::fork();
  if (child == 0) {
    set_file_fault_hook([](std::string_view name, const fs::path&) {
      if (name == "rename") ::_exit(0);
      return 0;
    });
    merge_caches(locate(folder / "x.h5"), {folder / "source.h5"});
  }
  ::waitpid(child, nullptr, 0);
  ASSERT_GT(entries(folder.path()).size(), 2u);
  merge_caches(locate(folder / "x.h5"), {folder / "source.h5"});
  EXPECT_THAT(entries(folder.path()), ElementsAre("source.h5", "x.h5"));
}

}  // namespace
}  // namespace coldframe::cache
