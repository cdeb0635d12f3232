#include "common/cli/out_of_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>
#include <vector>

namespace coldframe {
namespace {

using ::testing::ExitedWithCode;
using ::testing::KilledBySignal;

constexpr char kOneMessage[] = "^error: out of memory; [^\n]*\n$";

// What a process may still take lies below what a thread's first allocation asks for.
void limit_memory() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  const rlim_t bytes = pages * static_cast<rlim_t>(::sysconf(_SC_PAGESIZE)) + (16u << 20);
  const rlimit limit = {bytes, bytes};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &limit), 0);
}

void begin() {
  watch_for_end_of_memory();
  reserve_memory_for_the_end();
}

void write_to(volatile char* place) {
  *place = 1;
}

// Stacks grow by this much a call.
std::size_t fall(std::size_t depth) {
  volatile char room[1 << 16];
  room[depth % sizeof room] = 1;
  return depth > 1u << 16 ? 0 : fall(depth + 1) + static_cast<std::size_t>(room[0]);
}

TEST(OutOfMemoryDeathTest, IsSaidWhereNoExceptionGetsThrough) {
  const auto allocate = []() noexcept { std::vector<char>(64u << 20)[0] = 1; };
  EXPECT_EXIT((begin(), limit_memory(), allocate()), ExitedWithCode(3), kOneMessage);
  EXPECT_EXIT((begin(), limit_memory(), std::thread(allocate).join()), ExitedWithCode(3),
              kOneMessage);
}

TEST(OutOfMemoryDeathTest, IsSaidForLibrariesThatUseNullPointersOrAbort) {
  EXPECT_EXIT((begin(), limit_memory(), write_to(static_cast<char*>(std::malloc(64u << 20)))),
              ExitedWithCode(3), kOneMessage);
  EXPECT_EXIT((begin(), limit_memory(), std::abort()), ExitedWithCode(3), kOneMessage);
}

TEST(OutOfMemoryDeathTest, IsSaidWhenALibraryEndsTheProgram) {
  EXPECT_EXIT((begin(), limit_memory(), std::exit(-1)), ExitedWithCode(3), kOneMessage);
  EXPECT_EXIT((begin(), limit_memory(), expect_exit(), std::exit(1)), ExitedWithCode(1), "^$");
  constexpr char kGaveUp[] = "^error: a library ended the program [^\n]*threads[^\n]*\n$";
  EXPECT_EXIT((begin(), std::exit(1)), ExitedWithCode(3), kGaveUp);
  EXPECT_EXIT((begin(), std::exit(0)), ExitedWithCode(3), kGaveUp);
}

TEST(OutOfMemoryDeathTest, IsSaidOfAStackThatCannotGrow) {
  const auto recurse = [] {
    const rlimit stack = {RLIM_INFINITY, RLIM_INFINITY};
    ::setrlimit(RLIMIT_STACK, &stack);
    begin();
    limit_memory();
    std::_Exit(static_cast<int>(fall(0)));
  };
  EXPECT_EXIT(recurse(), ExitedWithCode(3), kOneMessage);
}

TEST(OutOfMemoryDeathTest, HidesNoOtherFault) {
  EXPECT_EXIT((begin(), write_to(nullptr)), KilledBySignal(SIGSEGV), "^$");
  EXPECT_EXIT((begin(), std::abort()), KilledBySignal(SIGABRT), "^$");
  const auto wrong = [] { throw std::logic_error("a mistake of ours"); };
  EXPECT_EXIT((begin(), std::thread(wrong).join()), KilledBySignal(SIGABRT), "a mistake of ours");
}

TEST(OutOfMemoryDeathTest, IsNotSaidAfterAnAllocationWhoseCallerCopes) {
  const auto ask = [] {
    constexpr std::size_t kMost = std::numeric_limits<std::ptrdiff_t>::max();
    begin();
    void* volatile one = ::operator new(kMost, std::nothrow);
    void* volatile many = ::operator new[](kMost, std::nothrow);
    if (one != nullptr || many != nullptr || memory_has_ended()) std::_Exit(8);
  };
  EXPECT_EXIT((ask(), write_to(nullptr)), KilledBySignal(SIGSEGV), "^$");
}

TEST(OutOfMemoryDeathTest, GivesItsReserveBack) {
  const auto unwind = [] {
    begin();
    limit_memory();
    std::vector<std::vector<char>> all;
    try {
      for (;;) all.emplace_back(1u << 17);
    } catch (const std::bad_alloc&) {
      std::vector<char> more(1u << 19);
      std::_Exit(memory_has_ended() ? 7 : 8);
    }
  };
  EXPECT_EXIT(unwind(), ExitedWithCode(7), "^$");
}

}  // namespace
}  // namespace coldframe
