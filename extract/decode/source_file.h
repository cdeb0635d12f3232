// A file as readers see it: its head, read once for all format detection, and its content, which a
// digest may accumulate while it is read.
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
  // Opens nothing yet. The digest, if any, must outlive this and its copies.
  explicit SourceFile(std::filesystem::path path, SourceDigest* digest = nullptr)
      : path_(std::move(path)), digest_(digest) {}

  const std::filesystem::path& path() const { return path_; }
  std::string_view head() const;  // the first 4 KiB at most

  // All holders share one open file. DataError, here and on reads, without the file's name.
  std::shared_ptr<const ByteSource> open() const;
  // As open(), and reads the head; its DataError names the file.
  std::shared_ptr<const ByteSource> hold() const;
  std::string content(std::uint64_t limit) const;  // DataError if it is longer
  SourceFile beside(std::filesystem::path path) const { return SourceFile(path, digest_); }
  // A file embedded in this one: the concatenation of these extents.
  SourceFile within(std::vector<Extent> parts) const;

 private:
  std::filesystem::path path_;
  SourceDigest* digest_;
  std::vector<Extent> parts_;  // empty: all of it
  mutable std::string head_;
  mutable std::weak_ptr<const ByteSource> open_;
};

// Stamps and digests by which a later run detects changed files of an exam.

// Sizes and modification times of the exam's files. Like the digest, it also changes when a file
// becomes unreadable or readable again.
std::string source_stamp(const ExamSpec& exam);

// XXH3-128 over the content of an exam's files. It hashes bytes as readers read them in the exam's
// order, and itself reads only what they skip. For a hole of 1 GiB or more (no intact image file
// has one), it hashes offset and length instead of the zeros: a broken file may have 1 TB of them.
class SourceDigest {
 public:
  explicit SourceDigest(const ExamSpec& exam);

  // Starts the next file to read; completes those before it.
  void turn_to(const std::filesystem::path& path);
  // `bytes` were read from `offset` of the file. DataError if the file's length changed.
  void follow(const std::filesystem::path& path, const ByteSource& file, std::uint64_t offset,
              std::span<const std::byte> bytes);
  // Completes all files. DataError if one of `were_read` is no longer readable; Interrupted, like
  // turn_to(), if a stop request leaves a file unread.
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
  bool begun_ = false;                                   // its size is in the digest, as are
  std::uint64_t size_ = 0, done_ = 0;                    // this many of its bytes
  std::vector<Hole> holes_;                              // in it
  std::map<std::filesystem::path, std::string> faults_;  // of files that cannot be read
  Xxh3Stream digest_, before_;                           // `before_`: excludes the current file
};

inline std::string source_digest(const ExamSpec& exam) {
  return SourceDigest(exam).finish();
}

}  // namespace coldframe::frames
