#include "common/files/staged_copies.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>
#include <utility>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

namespace fs = std::filesystem;

std::mutex copies_mutex;
std::map<fs::path, std::weak_ptr<const StagedCopy>> copies;

constexpr const char* kPrefix = ".coldframe-stage-";

// Of a program at work too, which needs the name no longer.
void remove_names(const fs::path& folder) {
  std::error_code error;
  for (const fs::path& entry : entries_of(folder))
    if (entry.filename().string().starts_with(kPrefix)) fs::remove(entry, error);
}

}  // namespace

// A kill between the two calls leaves an empty file, which the next program removes. (O_TMPFILE,
// which has no such moment, is not everywhere.)
NamelessFile::NamelessFile(const fs::path& folder) {
  static std::once_flag swept;
  std::call_once(swept, remove_names, folder);
  std::string name = (folder / concat(kPrefix, "XXXXXX")).string();
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ < 0)
    throw SystemError(concat("cannot make a file in '", folder.string(), "': ",
                             std::strerror(errno), "; check that it exists and may be written to"));
  ::unlink(name.c_str());
}

NamelessFile::~NamelessFile() {
  ::close(descriptor_);
}

std::shared_ptr<const StagedCopy> offer_copy(const fs::path& original, StagedCopy copy) {
  const auto forget = [original](const StagedCopy* dead) {
    delete dead;
    const std::lock_guard lock(copies_mutex);
    const auto found = copies.find(original);
    if (found != copies.end() && found->second.expired()) copies.erase(found);
  };
  std::shared_ptr<const StagedCopy> offered(new StagedCopy(std::move(copy)), forget);
  const std::lock_guard lock(copies_mutex);
  copies[original] = offered;
  return offered;
}

std::shared_ptr<const StagedCopy> find_copy(const fs::path& original) {
  const std::lock_guard lock(copies_mutex);
  const auto found = copies.find(original);
  return found == copies.end() ? nullptr : found->second.lock();
}

}  // namespace coldframe
