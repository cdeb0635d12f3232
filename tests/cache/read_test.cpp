// Several threads that read one cache.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <future>
#include <latch>

#include "cache/store/reader.h"
#include "tests/cache/support.h"

namespace {
std::atomic<void (*)()> at_next_read{nullptr};
}

// A disk that does at its next read what a test asks for.
extern "C" ssize_t pread(int file, void* to, std::size_t bytes, off_t offset) {
  if (const auto act = at_next_read.exchange(nullptr)) act();
  return ::syscall(SYS_pread64, file, to, bytes, offset);
}

namespace coldframe::cache {
namespace {

std::latch* is_slow = nullptr;
std::latch* goes_on = nullptr;

TEST(Reading, AThreadThatWaitsForTheDiskHoldsUpNoOther) {
  const MemoryFolder folder;
  std::vector<ExamFeatures> exams;
  for (std::uint64_t i = 0; i < 3; ++i) exams.push_back(make_exam(std::to_string(i), i, 5, 8));
  WriterOptions options;
  options.max_shard_exams = 2;
  write_cache(folder / "x.cache", exams, options);
  const CacheReader cache(folder / "x.cache");
  const std::size_t same_file = 1, other_file = 2;
  for (const std::size_t exam : {same_file, other_file}) {
    std::latch slow(1), go(1);
    is_slow = &slow;
    goes_on = &go;
    at_next_read = [] {
      is_slow->count_down();
      goes_on->wait();
    };
    auto waiting = std::async(std::launch::async, [&] { return cache.features(0); });
    slow.wait();
    auto other = std::async(std::launch::async, [&] { return cache.features(exam); });
    // The bound ends the test where it waits as well.
    EXPECT_EQ(other.wait_for(std::chrono::seconds(30)), std::future_status::ready) << exam;
    go.count_down();
    EXPECT_EQ(waiting.get().size(), exams[0].views[0].values.size());
    EXPECT_EQ(other.get().size(), exams[exam].views[0].values.size());
  }
}

// More files than may be open, so that threads open and close them for one another all the time.
TEST(Reading, ManyThreadsGetEveryExamOfManyFiles) {
  const MemoryFolder folder;
  std::vector<ExamFeatures> exams;
  for (std::uint64_t i = 0; i < 80; ++i) exams.push_back(make_exam(std::to_string(i), i, 2, 4));
  write_cache(folder / "x.cache", exams, one_exam_a_shard());
  const CacheReader cache(folder / "x.cache");
  std::vector<std::future<void>> threads;
  for (std::size_t thread = 0; thread < 4; ++thread)
    threads.push_back(std::async(std::launch::async, [&, thread] {
      for (std::size_t i = 0; i < exams.size(); ++i)
        expect_equal(cache, exams[(i * (2 * thread + 1) + 20 * thread) % exams.size()]);
    }));
  for (std::future<void>& thread : threads) thread.get();
}

}  // namespace
}  // namespace coldframe::cache
