#include "common/cli/output.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>

#include "common/text/printable.h"

namespace coldframe {
namespace {

constexpr std::size_t kBuffered = 1 << 16;  // bytes

// Threads may write at the same time, as they may to the buffers that C++ begins with. What is
// written waits where a pipe or a terminal is full, whether its descriptor blocks or not.
class PrintableBuffer : public std::streambuf {
 public:
  PrintableBuffer(int descriptor, int& error)
      : descriptor_(descriptor), error_(error), at_once_(::isatty(descriptor) == 1) {}

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::lock_guard lock(mutex_);
    waiting_.append(text, static_cast<std::size_t>(size));
    make_printable(whole_code_points(waiting_));
    const bool full = shown_.size() >= kBuffered || (at_once_ && shown_.ends_with('\n'));
    return !full || write() ? size : 0;
  }

  int_type overflow(int_type next) override {
    const char letter = traits_type::to_char_type(next);
    const bool passed = traits_type::eq_int_type(next, traits_type::eof()) || xsputn(&letter, 1);
    return passed ? traits_type::not_eof(next) : traits_type::eof();
  }

  int sync() override {
    const std::lock_guard lock(mutex_);
    make_printable(waiting_.size());
    return write() ? 0 : -1;
  }

 private:
  void make_printable(std::size_t bytes) {
    shown_ += printable(std::string_view(waiting_).substr(0, bytes), Lines::kMany);
    waiting_.erase(0, bytes);
  }

  // What failed once is not tried again: its reader has left, or the disk is full.
  bool write() {
    if (error_ == 0 && !write_all(descriptor_, shown_.data(), shown_.size())) error_ = errno;
    shown_.clear();
    return error_ == 0;
  }

  const int descriptor_;
  int& error_;
  const bool at_once_;
  std::mutex mutex_;
  std::string waiting_;  // the beginning of a code point whose other bytes come later
  std::string shown_;    // printable, and not written yet
};

int output_fault = 0, message_fault = 0;

}  // namespace

// The streams are flushed after the last destructor has run, hence none of the buffers.
void make_output_printable() {
  [[maybe_unused]] static const bool done = [] {
    std::cout.rdbuf(new PrintableBuffer(STDOUT_FILENO, output_fault));
    std::cerr.rdbuf(new PrintableBuffer(STDERR_FILENO, message_fault));
    return true;
  }();
}

int output_error() {
  return output_fault;
}

bool write_all(int descriptor, const char* bytes, std::size_t size) {
  while (size > 0) {
    const ssize_t count = ::write(descriptor, bytes, size);
    if (count > 0) {
      bytes += count;
      size -= static_cast<std::size_t>(count);
      continue;
    }
    pollfd full = {descriptor, POLLOUT, 0};
    if (count == 0) errno = EIO;
    if (count < 0 && errno == EAGAIN && (::poll(&full, 1, -1) > 0 || errno == EINTR)) continue;
    if (count == 0 || errno != EINTR) return false;
  }
  return true;
}

}  // namespace coldframe
