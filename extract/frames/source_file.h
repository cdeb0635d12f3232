// A file as its readers see it: its first bytes, read once for all who judge by them, and its
// content, which a digest may follow as it is read.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/bytes/byte_source.h"

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

}  // namespace coldframe::frames
