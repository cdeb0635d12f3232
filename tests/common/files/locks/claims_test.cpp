#include "common/files/locks/claims.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <set>

#include "common/files/file.h"
#include "common/files/publish/file_calls.h"
#include "common/text/text.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using namespace std::chrono_literals;
using testing::TemporaryFolder;

// A clock that stands until it is moved.
struct HandClock {
  ClaimOptions::Clock::time_point time{1h};
  ClaimOptions options(std::chrono::milliseconds beat = 1h) {
    return {beat, 60s, [this] { return time; }};
  }
};

std::string text_of(const std::filesystem::path& path) {
  return read_text_file(path, 4096);
}

// A process that claims "work" and lives until this object or end() kills it.
class Owner {
 public:
  explicit Owner(const TemporaryFolder& folder) {
    int ready[2];
    if (::pipe(ready) != 0 || (process_ = ::fork()) < 0) throw std::runtime_error("fork");
    if (process_ == 0) {
      Claims claims(folder.path());
      const char taken = claims.take("work") ? 1 : 0;
      if (::write(ready[1], &taken, 1) == 1) ::pause();
      ::_exit(1);
    }
    char taken = 0;
    EXPECT_EQ(::read(ready[0], &taken, 1), 1);
    EXPECT_EQ(taken, 1);
    ::close(ready[0]);
    ::close(ready[1]);
  }
  ~Owner() {
    end();
    ::waitpid(process_, nullptr, 0);
  }
  // Dead, but a zombie: nobody has asked for its exit code.
  void end() {
    ::kill(process_, SIGKILL);
    siginfo_t how;
    ::waitid(P_PID, static_cast<id_t>(process_), &how, WEXITED | WNOWAIT);
  }

 private:
  ::pid_t process_ = -1;
};

TEST(Claims, AreOfOneAtATime) {
  const TemporaryFolder folder;
  Claims one(folder.path());
  {
    Claims other(folder.path());
    EXPECT_TRUE(one.take("work"));
    EXPECT_FALSE(one.take("work"));
    EXPECT_FALSE(other.take("work"));
    EXPECT_TRUE(other.take("another"));
    one.release("work");
    EXPECT_TRUE(other.take("work"));
    one.release("work");  // is not its own
    EXPECT_FALSE(one.take("work"));
  }
  EXPECT_TRUE(one.take("work"));
  one.release("work");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(Claims, OfADeadProcessAreTakenOverAtOnce) {
  const TemporaryFolder folder;
  HandClock clock;
  Claims claims(folder.path(), clock.options());
  Owner owner(folder);
  EXPECT_FALSE(claims.take("work"));
  owner.end();
  EXPECT_TRUE(claims.take("work"));
}

TEST(Claims, OfAnEarlierProcessOfTheSameNumberAreTakenOverAtOnce) {
  const TemporaryFolder folder;
  HandClock clock;
  Claims claims(folder.path(), clock.options());
  ASSERT_TRUE(claims.take("work"));
  std::string line = text_of(folder / "work.claim");
  line.resize(line.find('\n'));
  std::ofstream(folder / "other.claim") << line << "\n";
  EXPECT_FALSE(claims.take("other")) << "the process lives";
  std::ofstream(folder / "other.claim") << line << "7\n";  // started at another time
  EXPECT_TRUE(claims.take("other"));
}

TEST(Claims, OfALiveProcessStayItsOwnHoweverLongItTakes) {
  const TemporaryFolder folder;
  HandClock clock;
  Claims owner(folder.path(), {1ms, 60s});
  ASSERT_TRUE(owner.take("work"));
  Claims claims(folder.path(), clock.options());
  std::set<std::string> signs;
  for (int look = 0; look < 10; ++look) {
    for (int sign = 0; sign < 2; ++sign)  // the first may be the one that the last look saw
      while (!signs.insert(text_of(folder / "work.claim")).second) std::this_thread::yield();
    EXPECT_FALSE(claims.take("work"));
    clock.time += 60s;
  }
}

TEST(Claims, OfAnotherMachineAreTakenOverWhenTheirCounterStandsStill) {
  const TemporaryFolder folder;
  HandClock clock;
  Claims claims(folder.path(), clock.options());
  const auto write = [&](const std::string& text) { std::ofstream(folder / "work.claim") << text; };
  for (const std::string owner : {"elsewhere boot pid:[1] 1 1\n", ""}) {  // killed as it began: ""
    write(owner + "1\n");
    EXPECT_FALSE(claims.take("work"));
    clock.time += 59s;
    write(owner + "2\n");
    EXPECT_FALSE(claims.take("work"));
    clock.time += 59s;
    EXPECT_FALSE(claims.take("work"));
    clock.time += 1s;
    EXPECT_TRUE(claims.take("work"));
    claims.release("work");
  }
}

TEST(Claims, AreNotTheFormerOwnersAfterATakeover) {
  const TemporaryFolder folder;
  HandClock clock;
  Claims suspended(folder.path(), {1h, 60s});
  ASSERT_TRUE(suspended.take("work"));
  Claims claims(folder.path(), clock.options());
  EXPECT_FALSE(claims.take("work"));
  clock.time += 60s;
  EXPECT_TRUE(claims.take("work"));
  suspended.release("work");
  Claims third(folder.path());
  EXPECT_FALSE(third.take("work"));
}

// A process that is killed leaves no claim without an owner, for which others would have to wait.
TEST(Claims, NameTheirOwnerWhenTheyAppear) {
  const TemporaryFolder folder;
  Claims claims(folder.path());
  std::string before;
  set_file_fault_hook([&](std::string_view name, const std::filesystem::path& path) {
    if (name == "rename" && path == folder / "work.claim")
      for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
        before += text_of(entry.path());
    return 0;
  });
  EXPECT_TRUE(claims.take("work"));
  set_file_fault_hook({});
  EXPECT_EQ(before, text_of(folder / "work.claim"));
}

TEST(Claims, AreNobodysInAFolderThatIsGone) {
  const TemporaryFolder folder;
  Claims claims(folder / "none");
  EXPECT_FALSE(claims.take("work"));
}

}  // namespace
}  // namespace coldframe
