// Lets a later run tell whether an exam's files are still the same.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "extract/frames/input/exam_list.h"

namespace coldframe::frames {

// Sizes and modification times of the exam's files. Like the digest it also changes when a file can
// no longer be read, or can be again.
std::string source_stamp(const ExamSpec& exam);

// The XXH3-128 over the content of an exam's files. It follows whoever reads them in the exam's
// order: only what they leave out is read for it. Of a hole of 1 GiB or more, which no whole file
// of images has, place and length count instead of its zeros: a broken file may have 1 TB of them.
class SourceDigest {
 public:
  explicit SourceDigest(const ExamSpec& exam);

  // The next file to be read; those before it are completed.
  void turn_to(const std::filesystem::path& path);
  // `bytes` were read from `offset` of the file. DataError where it is not as long as before.
  void follow(const std::filesystem::path& path, const ByteSource& file, std::uint64_t offset,
              std::span<const std::byte> bytes);
  // Completes all. DataError where one of `were_read` can no longer be read; Interrupted, as
  // turn_to(), where a stop request leaves a file unread.
  std::string finish(const std::set<std::filesystem::path>& were_read = {});

 private:
  struct Hole {
    std::uint64_t begin, end;
  };
  static std::vector<Hole> long_holes(const std::filesystem::path& path, std::uint64_t size);
  void begin(const ByteSource& file);
  void add(std::span<const std::byte> bytes);
  void read_until(const ByteSource& file, std::uint64_t end);
  void read_whole(const ByteSource& file);
  void complete();
  void next() { ++at_, begun_ = false, size_ = done_ = 0; }

  std::vector<std::filesystem::path> files_;
  std::size_t at_ = 0;                                   // the file at hand
  bool begun_ = false;                                   // its size is in the digest, and so are
  std::uint64_t size_ = 0, done_ = 0;                    // so many of its bytes
  std::vector<Hole> holes_;                              // in it
  std::map<std::filesystem::path, std::string> faults_;  // of files that cannot be read
  Xxh3Stream digest_, before_;                           // `before_`: without the file at hand
};

inline std::string source_digest(const ExamSpec& exam) {
  return SourceDigest(exam).finish();
}

}  // namespace coldframe::frames
