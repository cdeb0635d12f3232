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

class ClaimsTest : public ::testing::Test {
 protected:
  const TemporaryFolder folder_;
  HandClock clock_;
  Claims claims_{folder_.path(), clock_.options()};
};

TEST_F(ClaimsTest, AreOfOneAtATime) {
  Claims one(folder_.path());
  {
    Claims other(folder_.path());
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
  EXPECT_TRUE(std::filesystem::is_empty(folder_.path()));
}

TEST_F(ClaimsTest, OfADeadProcessAreTakenOverAtOnce) {
  Owner owner(folder_);
  EXPECT_FALSE(claims_.take("work"));
  owner.end();
  EXPECT_TRUE(claims_.take("work"));
}

TEST_F(ClaimsTest, OfAnEarlierProcessOfTheSameNumberAreTakenOverAtOnce) {
  ASSERT_TRUE(claims_.take("work"));
  std::string line = text_of(folder_ / "work.claim");
  line.resize(line.find('\n'));
  std::ofstream(folder_ / "other.claim") << line << "\n";
  EXPECT_FALSE(claims_.take("other")) << "the process lives";
  std::ofstream(folder_ / "other.claim") << line << "7\n";  // started at another time
  EXPECT_TRUE(claims_.take("other"));
}

TEST_F(ClaimsTest, OfALiveProcessStayItsOwnHoweverLongItTakes) {
  Claims owner(folder_.path(), {1ms, 60s});
  ASSERT_TRUE(owner.take("work"));
  std::set<std::string> signs;
  for (int look = 0; look < 10; ++look) {
    for (int sign = 0; sign < 2; ++sign)  // the first may be the one that the last look saw
      while (!signs.insert(text_of(folder_ / "work.claim")).second) std::this_thread::yield();
    EXPECT_FALSE(claims_.take("work"));
    clock_.time += 60s;
  }
}

TEST_F(ClaimsTest, OfAnotherMachineAreTakenOverWhenTheirCounterStandsStill) {
  const auto write = [&](const std::string& text) {
    std::ofstream(folder_ / "work.claim") << text;
  };
  for (const std::string owner : {"elsewhere boot pid:[1] 1 1\n", ""}) {  // killed as it began: ""
    write(owner + "1\n");
    EXPECT_FALSE(claims_.take("work"));
    clock_.time += 59s;
    write(owner + "2\n");
    EXPECT_FALSE(claims_.take("work"));
    clock_.time += 59s;
    EXPECT_FALSE(claims_.take("work"));
    clock_.time += 1s;
    EXPECT_TRUE(claims_.take("work"));
    claims_.release("work");
  }
}

TEST_F(ClaimsTest, AreNotTheFormerOwnersAfterATakeover) {
  Claims suspended(folder_.path(), {1h, 60s});
  ASSERT_TRUE(suspended.take("work"));
  EXPECT_FALSE(claims_.take("work"));
  clock_.time += 60s;
  EXPECT_TRUE(claims_.take("work"));
  suspended.release("work");
  Claims third(folder_.path());
  EXPECT_FALSE(third.take("work"));
}

// A process that is killed leaves no claim without an owner, for which others would have to wait.
TEST_F(ClaimsTest, NameTheirOwnerWhenTheyAppear) {
  std::string before;
  set_file_fault_hook([&](std::string_view name, const std::filesystem::path& path) {
    if (name == "rename" && path == folder_ / "work.claim")
      for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
        before += text_of(entry.path());
    return 0;
  });
  EXPECT_TRUE(claims_.take("work"));
  set_file_fault_hook({});
  EXPECT_EQ(before, text_of(folder_ / "work.claim"));
}

TEST_F(ClaimsTest, AreNobodysInAFolderThatIsGone) {
  EXPECT_FALSE(Claims(folder_ / "none").take("work"));
}

}  // namespace
}  // namespace coldframe
