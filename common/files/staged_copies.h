// Copies of input files on a quicker disk, one behind the other in files that have no name: they
// vanish with their last user, however it ends. InputFile reads a copy in the original's place.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>

namespace coldframe {

// An open file without a name. SystemError where none can be made in `folder`.
class NamelessFile {
 public:
  explicit NamelessFile(const std::filesystem::path& folder);
  ~NamelessFile();
  NamelessFile(const NamelessFile&) = delete;
  NamelessFile& operator=(const NamelessFile&) = delete;
  int descriptor() const { return descriptor_; }

 private:
  int descriptor_ = -1;
};

struct StagedCopy {
  std::shared_ptr<const NamelessFile> file;
  std::uint64_t begin = 0, size = 0;
  std::string identity;  // InputFile::identity() of the original
};

// From then on, and for as long as somebody holds the copy, InputFile finds it under this path.
std::shared_ptr<const StagedCopy> offer_copy(const std::filesystem::path& original,
                                             StagedCopy copy);
std::shared_ptr<const StagedCopy> find_copy(const std::filesystem::path& original);  // or null

}  // namespace coldframe
