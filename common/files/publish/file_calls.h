// The calls of the system by which files appear, each of which tests can make fail. Internal to
// common/files, but for set_file_fault_hook().
#pragma once

#include <cerrno>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace coldframe {

// Fault injection for tests: called before operation `name` ("open", "write", "read", "truncate",
// "fsync", "rename" (also of a link), "exchange" (of two names), "reserve", "replace" (of what is
// reserved), "fsync_folder", "unlink", "mkdir") on `path` (of a rename: the new name; of an
// fsync_folder: the folder). Returns the errno with which it fails, 0 to let it happen, or
// kShortWrite to let a write store half of its bytes. Empty: no faults.
constexpr int kShortWrite = -1;
using FileFaultHook = std::function<int(std::string_view name, const std::filesystem::path& path)>;
void set_file_fault_hook(FileFaultHook hook);

namespace file_calls {

int injected_fault(std::string_view name, const std::filesystem::path& path);

// Runs a system call that returns a negative number on failure, again when a signal cut it short.
template <typename Call>
auto attempt(int fault, const Call& call) -> decltype(call()) {
  if (fault > 0) {
    errno = fault;
    return -1;
  }
  decltype(call()) result;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}

// A SystemError that says what the error asks for; a PassingError where it may pass.
[[noreturn]] void refuse(std::string_view verb, const std::filesystem::path& path, int error);

// Open for reading while it lives. refuse()s.
class OpenFile {
 public:
  explicit OpenFile(const std::filesystem::path& path);
  ~OpenFile();
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

std::filesystem::path folder_of(const std::filesystem::path& path);

// Makes the entry of `path` in its folder (a rename, a removal) survive a power cut. Tried again by
// itself: what it follows has been done, and is not to be done twice.
void sync_folder(const std::filesystem::path& path);

}  // namespace file_calls
}  // namespace coldframe
