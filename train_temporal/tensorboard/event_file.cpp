#include "train_temporal/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

constexpr std::uint64_t kMaxBytes = 1ull << 30;
constexpr double kWriteEvery = 1.0;  // seconds

double now() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(since).count();
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw SystemError(concat("cannot ", what, " '", path.string(), "': ", std::strerror(errno)));
}

struct Kept {
  std::size_t bytes = 0;  // 0: not even the first record
  std::int64_t steps = 0;
};

Kept kept(std::string_view content, std::int64_t most) {
  const auto version = read_record_head(content);
  if (!version) return {};
  Kept result{version->size, 0};
  while (result.steps < most) {
    const auto next = read_record_head(content.substr(result.bytes));
    if (!next || next->step != result.steps) break;
    result.bytes += next->size;
    ++result.steps;
  }
  return result;
}

}  // namespace

EventFile::EventFile(const std::filesystem::path& path, std::int64_t keep) : path_(path) {
  create_folders_durably(path.parent_path());
  std::string content;
  if (std::filesystem::exists(path)) content = read_text_file(path, kMaxBytes);
  const Kept whole = kept(content, keep);
  // A new file: a process that was thought lost may still write to the old one.
  write_file_atomically(path, content.substr(0, whole.bytes));
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_APPEND | O_CLOEXEC);
  if (descriptor_ < 0) fail(path, "write");
  steps_ = whole.steps;
  if (whole.bytes == 0) pending_ = version_record(now());
}

EventFile::~EventFile() {
  try {
    write();
  } catch (const Error&) {  // the error that ends the fit is the one to report
  }
  ::close(descriptor_);
}

void EventFile::add(std::span<const Scalar> scalars) {
  const double time = now();
  pending_ += scalar_record(time, steps_++, scalars);
  if (time - written_ >= kWriteEvery) write();
}

void EventFile::flush() {
  write();
  if (::fdatasync(descriptor_) != 0) fail(path_, "write");
}

void EventFile::write() {
  std::string_view left = pending_;
  while (!left.empty()) {
    const ssize_t count = ::write(descriptor_, left.data(), left.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, "write");
    left.remove_prefix(static_cast<std::size_t>(count));
  }
  pending_.clear();
  written_ = now();
}

}  // namespace coldframe::temporal
