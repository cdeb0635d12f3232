// The disk fails at every operation in turn: the error is clear, no process crashes at exit, and
// every exam that was acknowledged is still there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "cache/tool/verify.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "tests/cache/support.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

constexpr int kFailed = 3, kWrongError = 9;

struct Fault {
  const char* name;
  const char* path;
  int error;     // an errno, or kShortWrite
  bool lasting;  // every operation from the first failing one on, as on a full disk
};

void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

// Runs in a process of its own, which ends as programs do: HDF5 has its say at exit.
int extend_failing_at(int failing, const Fault& fault, const fs::path& path, const fs::path& log) {
  const pid_t child = ::fork();
  if (child == 0) {
    int count = 0;
    set_file_fault_hook([&](std::string_view, const fs::path&) {
      const int now = count++;
      return now == failing || (fault.lasting && now > failing) ? fault.error : 0;
    });
    int code = 0;
    try {
      extend_cache(path, log);
      code = count > failing ? 0 : 1;  // 1: the job has fewer operations
    } catch (const SystemError& error) {
      const char* reason = fault.error == kShortWrite ? "?" : std::strerror(fault.error);
      code = std::string(error.what()).find(reason) == std::string::npos ? kWrongError : kFailed;
    } catch (...) {
      code = kWrongError;
    }
    std::exit(code);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

class Faults : public ::testing::TestWithParam<Fault> {};

TEST_P(Faults, AtEveryOperationLoseNothingThatWasAcknowledged) {
  const Fault fault = GetParam();
  int failing = 0, failures = 0;
  for (;; ++failing) {
    ASSERT_LT(failing, 1000);
    SCOPED_TRACE("operation " + std::to_string(failing));
    const MemoryFolder folder;
    const fs::path path = folder / fault.path;
    write_cache(path, {make_exam("0", 0, 5, 40)}, one_exam_a_shard());
    const int code = extend_failing_at(failing, fault, path, folder / "log");
    if (code == 1) break;
    ASSERT_TRUE(code == 0 || code == kFailed) << "the child ended with " << code;
    failures += code == kFailed;
    expect_acknowledged(path, folder / "log");
    for (const Finding& finding : verify(locate(path)).findings)
      EXPECT_THAT(finding.problem, HasSubstr("with equal content"))
          << "a removal that failed shows";
    ASSERT_NO_THROW(extend_cache(path, folder / "log")) << "the same job again";
    fs::remove(folder / "log");
    EXPECT_EQ(entries(folder.path()).size(), 1u);
    EXPECT_EQ(CacheReader(path).exams().size(), 4u);
    if (HasFailure()) return;
  }
  EXPECT_GT(failing, 10);
  if (fault.error == kShortWrite) {
    EXPECT_EQ(failures, 0) << "the rest is written by the next call";
  } else {
    EXPECT_GT(failures, 10);
  }
}

INSTANTIATE_TEST_SUITE_P(Disk, Faults,
                         ::testing::Values(Fault{"FullOnceFolder", "x.cache", ENOSPC, false},
                                           Fault{"FullFolder", "x.cache", ENOSPC, true},
                                           Fault{"FullOnceFile", "x.h5", ENOSPC, false},
                                           Fault{"FullFile", "x.h5", ENOSPC, true},
                                           Fault{"BrokenOnceFolder", "x.cache", EIO, false},
                                           Fault{"BrokenOnceFile", "x.h5", EIO, false},
                                           Fault{"BrokenFile", "x.h5", EIO, true},
                                           Fault{"ShortOnceFile", "x.h5", kShortWrite, false},
                                           Fault{"ShortFile", "x.h5", kShortWrite, true}),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Faults, AFailedAddCanBePublishedLater) {
  const MemoryFolder folder;
  ShardWriter writer(locate(folder / "x.h5"), make_recipe(), 4, one_exam_a_shard());
  const std::vector<ExamFeatures> exams{make_exam("a", 0, 3, 4), make_exam("b", 1, 3, 4)};
  writer.add(exams[0]);
  set_file_fault_hook([](std::string_view, const fs::path&) { return ENOSPC; });
  EXPECT_THROW(writer.add(exams[1]), SystemError);
  EXPECT_THROW(writer.finish(), SystemError);
  set_file_fault_hook({});
  writer.finish();
  expect_equal(CacheReader(folder / "x.h5"), exams[0]);
}

}  // namespace
}  // namespace coldframe::cache
