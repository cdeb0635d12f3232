#include "common/cli/progress.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <functional>
#include <thread>
#include <vector>

#include "common/cli/log.h"

namespace coldframe {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

std::string stderr_of(const std::function<void()>& body) {
  ::testing::internal::CaptureStderr();
  body();
  return ::testing::internal::GetCapturedStderr();
}

// Returns what `body` writes to stderr when that is a terminal.
std::string terminal_output_of(const std::function<void()>& body) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  EXPECT_EQ(::grantpt(terminal), 0);
  EXPECT_EQ(::unlockpt(terminal), 0);
  const int end = ::open(::ptsname(terminal), O_RDWR | O_NOCTTY);
  const int saved = ::dup(STDERR_FILENO);
  ::dup2(end, STDERR_FILENO);
  body();
  ::dup2(saved, STDERR_FILENO);
  std::string output(4096, '\0');
  const ssize_t count = ::read(terminal, output.data(), output.size());
  output.resize(static_cast<std::size_t>(std::max<ssize_t>(count, 0)));
  for (const int descriptor : {terminal, end, saved}) ::close(descriptor);
  return output;
}

TEST(Progress, EndsWithOneLineThatCountsEveryThread) {
  const std::string output = stderr_of([] {
    Progress progress("extract", "frames", 200);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        for (int i = 0; i < 50; ++i) progress.add();
      });
    }
    for (auto& thread : threads) thread.join();
    progress.set_note("val loss 0.4");
    progress.finish();
    progress.add();
  });
  EXPECT_THAT(output, StartsWith("extract: 200/200 frames (100%)"));
  EXPECT_THAT(output, EndsWith(", val loss 0.4\n"));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 1);
}

TEST(Progress, AnUnknownTotalIsNotShown) {
  const std::string output = stderr_of([] { Progress("scan", "files", 0).add(7); });
  EXPECT_THAT(output, StartsWith("scan: 7 files, "));
  EXPECT_THAT(output, Not(HasSubstr("%")));
}

TEST(Progress, TheRestGoesOnAtThePaceOfWhatIsDone) {
  EXPECT_DOUBLE_EQ(seconds_left(60, 3, 12), 180);
  EXPECT_DOUBLE_EQ(seconds_left(60, 2.5, 10), 180);
  EXPECT_DOUBLE_EQ(seconds_left(60, 5, 4), 0);  // more than was expected
}

TEST(Progress, SaysOnceWhatAllUnitsTake) {
  const std::string output = stderr_of([] {
    Progress progress("map", "frames", 108);
    progress.estimate_after(2);
    for (int i = 0; i < 4; ++i) progress.add();
  });
  EXPECT_THAT(output, StartsWith("map: 108 frames, about "));
  EXPECT_EQ(std::count(output.begin(), output.end(), '\n'), 2) << "that line, and the last one";
}

TEST(Progress, AnEstimateIsNotSaidWhenAllIsDone) {
  const std::string output = stderr_of([] {
    Progress progress("map", "frames", 2);
    progress.estimate_after(2);
    progress.add(2);
  });
  EXPECT_THAT(output, StartsWith("map: 2/2 frames"));
}

TEST(Progress, IsSilentWhenQuiet) {
  set_quiet(true);
  const std::string output = stderr_of([] {
    Progress progress("map", "frames", 3);
    progress.estimate_after(1);
    progress.add();
    Progress("extract", "frames", 3).add(3);
    log_info("not said");
    log_warning("said");
  });
  set_quiet(false);
  EXPECT_EQ(output, "warning: said\n");
}

TEST(Progress, RewritesItsLineOnATerminal) {
  ::setenv("TERM", "xterm", 1);
  const std::string output = terminal_output_of([] { Progress("extract", "frames", 3).add(3); });
  EXPECT_THAT(output, StartsWith("\rextract: 3/3 frames"));
  EXPECT_THAT(output, EndsWith("\x1b[K\r\n"));
}

TEST(Log, ShowsWhatSteersATerminalAndShortensWhatIsEndless) {
  EXPECT_EQ(stderr_of([] { log_error("'a\x1b[2J\u202eb'\n  c"); }),
            "error: 'a\\u001b[2J\\u202eb'\n  c\n");
  const std::string output = stderr_of([] { log_warning("a" + std::string(1 << 20, 'x') + "b"); });
  EXPECT_LT(output.size(), 10000u);
  EXPECT_THAT(output, StartsWith("warning: axxx"));
  EXPECT_THAT(output, EndsWith("xxxb\n"));
  EXPECT_THAT(stderr_of([] { Progress("scan", "files\x1b", 0).add(7); }),
              HasSubstr("files\\u001b"));
}

TEST(Log, ColoursOnlyATerminalThatWantsIt) {
  ::setenv("TERM", "xterm", 1);
  ::unsetenv("NO_COLOR");
  EXPECT_EQ(stderr_of([] { log_error("x"); }), "error: x\n");
  EXPECT_THAT(terminal_output_of([] { log_error("x"); }), HasSubstr("\x1b[31merror: \x1b[0mx"));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_THAT(terminal_output_of([] { log_error("x"); }), HasSubstr("error: x"));
  EXPECT_THAT(terminal_output_of([] { log_error("x"); }), Not(HasSubstr("[31m")));
  ::unsetenv("NO_COLOR");
}

}  // namespace
}  // namespace coldframe
