#include "common/cli/out_of_memory.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <exception>
#include <new>
#include <string_view>
#include <system_error>

#include "common/cli/error.h"
#include "common/cli/log.h"

namespace coldframe {
namespace {

constexpr std::size_t kReserve = 1u << 20;
constexpr std::size_t kProbe = 64u << 20;  // what glibc asks for when a thread begins to allocate

std::atomic<bool> ended{false};
std::atomic<bool> error_noted{false};
std::atomic<bool> ends_by_itself{false};
std::atomic<bool> leaves_at_once{false};
std::atomic<void*> reserve{nullptr};
thread_local bool copes = false;  // the caller of operator new: it asks by std::nothrow
std::terminate_handler usual_end = nullptr;
constexpr std::array kFaults = {SIGSEGV, SIGBUS, SIGABRT};
std::array<struct sigaction, kFaults.size()> usual_actions;
static_assert(std::atomic<void*>::is_always_lock_free);  // handlers of signals touch them

void on_failed_allocation() {
  if (copes) throw std::bad_alloc();  // std::stable_sort, for one, goes on with a smaller buffer
  ended = true;
  std::free(reserve.exchange(nullptr));
  throw std::bad_alloc();
}

// C libraries tell nobody that they got no memory.
bool memory_is_short() {
  void* const probe =
      ::mmap(nullptr, kProbe, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (probe == MAP_FAILED) return true;
  ::munmap(probe, kProbe);
  return false;
}

void say(std::string_view message) {
  if (note_error()) return;
  constexpr std::string_view kClear = "\r\x1b[K";
  if (stderr_is_terminal()) [[maybe_unused]]
    const ssize_t cleared = ::write(STDERR_FILENO, kClear.data(), kClear.size());
  [[maybe_unused]] const ssize_t told = ::write(STDERR_FILENO, message.data(), message.size());
}

[[noreturn]] void end_out_of_memory() {
  say_out_of_memory();
  ::_exit(static_cast<int>(ExitCode::kFatal));
}

// Whether the exception that nobody caught is a lack of memory.
bool is_lack_of_memory() {
  if (!std::current_exception()) return false;
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return true;
  } catch (const std::system_error& error) {  // a thread that cannot start
    return error.code() == std::errc::not_enough_memory ||
           error.code() == std::errc::resource_unavailable_try_again;
  } catch (...) {
    return false;
  }
}

// exit() that is not the program's own: a library gives up, as libgomp does with exit(1) where it
// gets no thread. That is a fatal error, whatever code it has.
void on_exit() {
  if (ends_by_itself) return;
  if (ended || memory_is_short()) end_out_of_memory();
  say("error: a library ended the program and said why above; if it got no threads, ask for fewer "
      "(--threads, OMP_NUM_THREADS), or raise the limit on them (ulimit -u, or that of the "
      "container or job)\n");
  ::_exit(static_cast<int>(ExitCode::kFatal));
}

void on_terminate() {
  if (ended || is_lack_of_memory() || memory_is_short()) end_out_of_memory();
  if (usual_end) usual_end();
  std::abort();
}

// With memory left, the instruction fails again under the usual action, and abort() raises its
// signal again by itself. A signal that another process sent is raised anew.
void on_fault(int signal_number, siginfo_t* info, void*) {
  if (ended || memory_is_short()) end_out_of_memory();
  for (std::size_t i = 0; i < kFaults.size(); ++i)
    if (kFaults[i] == signal_number) ::sigaction(signal_number, &usual_actions[i], nullptr);
  if (info->si_code <= 0) ::raise(signal_number);
}

}  // namespace

void watch_for_end_of_memory() {
  if (std::set_new_handler(on_failed_allocation) == on_failed_allocation) return;  // again
  usual_end = std::set_terminate(on_terminate);
  std::atexit(on_exit);
  // The first thread's stack may be what cannot grow. (Those of others have all their pages.)
  static std::array<char, 1 << 14> stack;
  const stack_t other = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  ::sigaltstack(&other, nullptr);
  struct sigaction action = {};
  action.sa_sigaction = on_fault;
  action.sa_flags = SA_ONSTACK | SA_SIGINFO;
  ::sigemptyset(&action.sa_mask);
  for (std::size_t i = 0; i < kFaults.size(); ++i)
    ::sigaction(kFaults[i], &action, &usual_actions[i]);
}

void reserve_memory_for_the_end() {
  std::free(reserve.exchange(std::malloc(kReserve)));
}

void expect_exit() {
  ends_by_itself = true;
}

void memory_recovered() {
  ended = false;
  if (!reserve) reserve_memory_for_the_end();
}

bool memory_has_ended() {
  return ended;
}

void leave_without_destructors() {
  leaves_at_once = true;
}

bool leaves_without_destructors() {
  return leaves_at_once || ended;
}

bool note_error() {
  return error_noted.exchange(true);
}

void say_out_of_memory() {
  say("error: out of memory; ask for less at a time or stop other programs, then run the same "
      "command again\n");
}

}  // namespace coldframe

namespace {

void* try_to_allocate(std::size_t size) noexcept {
  coldframe::copes = true;
  void* memory = nullptr;
  try {
    memory = ::operator new(size);
  } catch (const std::bad_alloc&) {  // the caller copes
  }
  coldframe::copes = false;
  return memory;
}

}  // namespace

// The standard lets a program replace these ([new.delete.single]).
void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return try_to_allocate(size);
}
void* operator new[](std::size_t size, const std::nothrow_t&) noexcept {
  return try_to_allocate(size);
}
