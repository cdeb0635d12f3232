#include "common/cli/output.h"

#include <iostream>
#include <mutex>
#include <streambuf>
#include <string>

#include "common/text/printable.h"

namespace coldframe {
namespace {

// Threads may write at the same time, as they may to the buffers that C++ begins with.
class PrintableBuffer : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf* target) : target_(target) {}

 protected:
  std::streamsize xsputn(const char* text, std::streamsize size) override {
    const std::lock_guard lock(mutex_);
    waiting_.append(text, static_cast<std::size_t>(size));
    return pass_on(whole_code_points(waiting_)) ? size : 0;
  }

  int_type overflow(int_type next) override {
    const char letter = traits_type::to_char_type(next);
    const bool passed = traits_type::eq_int_type(next, traits_type::eof()) || xsputn(&letter, 1);
    return passed ? traits_type::not_eof(next) : traits_type::eof();
  }

  int sync() override {
    const std::lock_guard lock(mutex_);
    return pass_on(waiting_.size()) && target_->pubsync() == 0 ? 0 : -1;
  }

 private:
  bool pass_on(std::size_t bytes) {
    const std::string shown = printable(std::string_view(waiting_).substr(0, bytes), Lines::kMany);
    waiting_.erase(0, bytes);
    const auto size = static_cast<std::streamsize>(shown.size());
    return target_->sputn(shown.data(), size) == size;
  }

  std::streambuf* target_;
  std::mutex mutex_;
  std::string waiting_;  // the beginning of a code point whose other bytes come later
};

// The streams are flushed after the last destructor has run, hence none of the buffer.
void pass_through(std::ostream& stream) {
  stream.rdbuf(new PrintableBuffer(stream.rdbuf()));
}

}  // namespace

void make_output_printable() {
  [[maybe_unused]] static const bool done = [] {
    pass_through(std::cout);
    pass_through(std::cerr);
    return true;
  }();
}

}  // namespace coldframe
