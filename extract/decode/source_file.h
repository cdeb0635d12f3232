// A file as its readers see it: its first bytes, read once for all who judge by them, and its
// content, which a digest may follow as it is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/bytes.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "extract/decode/exam_spec.h"

namespace coldframe::frames {

class SourceDigest;

struct Extent {
  std::uint64_t offset = 0, length = 0;
};

class SourceFile {
 public:
  // Opens nothing yet. The digest, if there is one, must outlive this and its copies.
  explicit SourceFile(std::filesystem::path path, SourceDigest* digest = nullptr)
      : path_(std::move(path)), digest_(digest) {}

  const std::filesystem::path& path() const { return path_; }
  std::string_view head() const;  // the first 4 KiB at most

  // Everyone who holds it shares one open file. DataError, here and when it is read, without the
  // file's name.
  std::shared_ptr<const ByteSource> open() const;
  // The same, and reads the head; its DataError names the file.
  std::shared_ptr<const ByteSource> hold() const;
  std::string content(std::uint64_t limit) const;  // DataError where it has more bytes
  SourceFile beside(std::filesystem::path path) const { return SourceFile(path, digest_); }
  // A file within this one: its bytes are these parts, one behind the other.
  SourceFile within(std::vector<Extent> parts) const;

 private:
  std::filesystem::path path_;
  SourceDigest* digest_;
  std::vector<Extent> parts_;  // empty: all of it
  mutable std::string head_;
  mutable std::weak_ptr<const ByteSource> open_;
};

// Lets a later run tell whether an exam's files are still the same.

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
