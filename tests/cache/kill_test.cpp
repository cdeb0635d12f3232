// A process that is killed before any operation of a job, packing included, and the same job again:
// the file is in the end byte for byte that of a job that nobody stopped.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>

#include "cache/tool/verify.h"
#include "common/files/publish/atomic_file.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kExamsToWrite = 3;

// Writes what is not there yet, as `coldframe extract` does: exams, each in a shard of its own, and
// one that has failed.
void run_job(const fs::path& path) {
  std::vector<std::uint64_t> missing;
  bool failed = false;
  {
    const bool is_there = !locate(path).files().empty();
    const auto cached = is_there ? std::make_unique<CacheReader>(path) : nullptr;
    for (std::uint64_t i = 0; i < kExamsToWrite; ++i)
      if (!cached || cached->find(std::to_string(i)) == CacheReader::npos) missing.push_back(i);
    failed = cached && !cached->failures().empty();
  }
  ShardWriter writer(locate(path), make_recipe_with_thumbnails(), 40, one_exam_a_shard());
  for (const std::uint64_t i : missing) {
    ExamFeatures exam = make_exam(std::to_string(i), i, 5, 40);
    add_thumbnails(exam);
    writer.add(exam);
  }
  if (!failed) writer.add_failure({"broken", kExamsToWrite, 0, "broken.gif", "cannot be decoded"});
  writer.finish();
}

// False when the job ended before operation `last`.
bool kill_before(int last, const fs::path& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    set_file_fault_hook([&](std::string_view, const fs::path&) {
      if (count++ == last) ::_exit(0);
      return 0;
    });
    run_job(path);
    ::_exit(1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << status;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Kills, BeforeAnyOperationLeaveTheSameFileInTheEnd) {
  const MemoryFolder whole;
  run_job(whole / "x.h5");
  const std::vector<std::byte> expected = read_bytes(whole / "x.h5");
  int operations = 0;
  for (;; ++operations) {
    SCOPED_TRACE("killed before operation " + std::to_string(operations));
    const MemoryFolder folder;
    if (!kill_before(operations, folder / "x.h5")) break;
    run_job(folder / "x.h5");
    EXPECT_EQ(entries(folder.path()), std::vector<std::string>{"x.h5"});
    ASSERT_EQ(read_bytes(folder / "x.h5"), expected);
    EXPECT_TRUE(verify(locate(folder / "x.h5")).findings.empty());
    // And killed once more, where the second run packs what the first one left.
    const MemoryFolder twice;
    kill_before(operations, twice / "x.h5");
    kill_before(operations / 2, twice / "x.h5");
    run_job(twice / "x.h5");
    ASSERT_EQ(read_bytes(twice / "x.h5"), expected);
  }
  EXPECT_GT(operations, 20);
}

}  // namespace
}  // namespace coldframe::cache
