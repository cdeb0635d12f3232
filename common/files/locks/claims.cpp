#include "common/files/locks/claims.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "common/cli/error.h"
#include "common/files/publish/publish.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "common/threads/threads.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

struct ProcessState {
  char letter = '?';
  std::string started;  // in clock ticks since the machine's start
};

// Of /proc/PID/stat (proc(5)), whose second field is a name that may hold anything.
ProcessState state_of(::pid_t process) {
  const std::string stat = text_of(concat("/proc/", process, "/stat"));
  const std::size_t name_end = stat.rfind(") ");
  if (name_end == std::string::npos) return {};
  const std::vector<std::string> fields = split(stat.substr(name_end + 2), ' ');
  constexpr std::size_t kStarted = 22 - 3;  // fields from the third on are numbered from 0 here
  if (fields.size() <= kStarted) return {};
  return {fields[0].front(), fields[kStarted]};
}

// The processes that this one can look at: of one boot of one machine, in one container.
std::string machine() {
  char host[256] = "";
  ::gethostname(host, sizeof(host) - 1);
  std::error_code unknown;
  const fs::path processes = fs::read_symlink("/proc/self/ns/pid", unknown);
  return concat(host, " ", trim(text_of("/proc/sys/kernel/random/boot_id")), " ",
                processes.string());
}

// "HOST BOOT PROCESSES PID STARTED"; a process of the same number that started later is another.
std::string owner_line() {
  return concat(machine(), " ", ::getpid(), " ", state_of(::getpid()).started);
}

bool is_dead(const std::string& owner) {
  const std::string here = machine() + " ";
  if (!owner.starts_with(here)) return false;
  const std::vector<std::string> words = split(owner.substr(here.size()), ' ');
  std::int64_t process = 0;
  if (words.size() != 2 || !parse_int(words[0], process) || process <= 0) return false;
  if (::kill(static_cast<::pid_t>(process), 0) != 0 && errno == ESRCH) return true;
  const ProcessState state = state_of(static_cast<::pid_t>(process));
  const bool ended = state.letter == 'Z' || state.letter == 'X';  // its parent has not noticed yet
  return ended || (!state.started.empty() && state.started != words[1]);
}

// On NFS others see it when it is synced. A sign of life that fails is none.
void write_whole(int descriptor, const std::string& text) {
  if (::pwrite(descriptor, text.data(), text.size(), 0) > 0) ::fsync(descriptor);
}

// Whether the file under this name is still the one that we have open.
bool is_ours(const fs::path& path, int descriptor) {
  struct stat there {
  }, ours{};
  return ::stat(path.c_str(), &there) == 0 && ::fstat(descriptor, &ours) == 0 &&
         there.st_dev == ours.st_dev && there.st_ino == ours.st_ino;
}

}  // namespace

Claims::Claims(fs::path folder, ClaimOptions options)
    : folder_(std::move(folder)), options_(std::move(options)) {
  living_ = start_thread([this] { show_life(); });
}

Claims::~Claims() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  living_.join();
  while (!held_.empty()) release(std::string(held_.begin()->first));
}

bool Claims::take(const std::string& name) {
  const std::lock_guard lock(mutex_);
  if (held_.contains(name)) return false;
  const fs::path path = file_of(name);
  std::error_code unknown;
  const bool is_there = fs::exists(status_of(path, unknown));
  if (is_there && !is_abandoned(name)) return false;
  for (RetryPolicy tries(path);;) {
    const int claim = put(path, is_there);
    if (claim >= 0) {
      held_[name] = claim;
      seen_.erase(name);
      return true;
    }
    const int error = errno;
    if (error == ENOENT || error == EEXIST) return false;
    if (!tries.again(error))
      throw SystemError(concat("cannot write '", path.string(), "': ", std::strerror(error)));
  }
}

void Claims::release(const std::string& name) {
  const std::lock_guard lock(mutex_);
  const auto found = held_.find(name);
  if (found == held_.end()) return;
  const bool ours = is_ours(file_of(name), found->second);
  ::close(found->second);  // first: NFS keeps what is removed while open under another name
  if (ours) ::unlink(file_of(name).c_str());
  held_.erase(found);
}

fs::path Claims::file_of(const std::string& name) const {
  return folder_ / (name + ".claim");
}

// Padded, so that every content has the same size.
std::string Claims::content() const {
  const std::string beats = concat(beats_);
  return concat(owner_line(), "\n", std::string(20 - beats.size(), '0'), beats, "\n");
}

bool Claims::is_abandoned(const std::string& name) {
  Seen found{text_of(file_of(name)), options_.now()};
  if (is_dead(found.content.substr(0, found.content.find('\n')))) return true;
  Seen& seen = seen_.try_emplace(name, found).first->second;
  if (seen.content != found.content) seen = found;
  return found.since - seen.since >= options_.patience;
}

// Puts a claim in place whole, so that nobody sees one without an owner. The owner of a claim that
// is taken over keeps a file without a name, and its signs of life reach nobody. Of two processes
// that take over at once both may believe that they have the claim. -1 with errno; EEXIST: taken.
int Claims::put(const fs::path& path, bool take_over) const {
  fs::path own = path;
  own += concat(".", split(machine(), ' ').front(), "-", ::getpid());
  const int claim = ::open(own.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0666);
  if (claim < 0) return -1;
  write_whole(claim, content());
  const auto give_up = [&](int error) {
    ::close(claim);
    ::unlink(own.c_str());
    errno = error;
    return -1;
  };
  if (take_over) return ::rename(own.c_str(), path.c_str()) == 0 ? claim : give_up(errno);
  try {
    return rename_file_if_new(own, claim, path) ? claim : give_up(EEXIST);
  } catch (...) {
    give_up(0);
    throw;
  }
}

void Claims::show_life() {
  std::unique_lock lock(mutex_);
  while (!wake_.wait_for(lock, options_.beat, [this] { return stopping_; })) {
    ++beats_;
    for (const auto& [name, claim] : held_) write_whole(claim, content());
  }
}

void Waiting::pause() {
  std::this_thread::sleep_for(next_);
  next_ = std::min<std::chrono::milliseconds>(2 * next_, std::chrono::seconds(1));
}

}  // namespace coldframe
