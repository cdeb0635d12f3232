#include "extract/frames/source_file.h"

#include <algorithm>
#include <span>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/files/file.h"
#include "common/text/text.h"
#include "extract/frames/input/source_digest.h"

namespace coldframe::frames {
namespace {

constexpr std::size_t kSharedHeadBytes = 4096;

class FollowedFile final : public ByteSource {
 public:
  FollowedFile(const std::filesystem::path& path, SourceDigest& digest)
      : file_(path, refuse_unnamed), digest_(digest) {}

  std::uint64_t size() const override { return file_.size(); }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const override {
    const std::size_t count = file_.read_some(offset, bytes);
    digest_.follow(file_.path(), file_, offset, bytes.first(count));
    return count;
  }

 private:
  InputFile file_;
  SourceDigest& digest_;
};

class PartsOfFile final : public ByteSource {
 public:
  PartsOfFile(std::shared_ptr<const ByteSource> file, std::vector<Extent> parts)
      : file_(std::move(file)), parts_(std::move(parts)) {
    for (const Extent& part : parts_) size_ += part.length;
  }

  std::uint64_t size() const override { return size_; }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const override {
    std::size_t done = 0;
    for (const Extent& part : parts_) {
      if (offset < part.length && done < bytes.size()) {
        const std::uint64_t left = std::min(part.length - offset, bytes.size() - done);
        const std::size_t count = file_->read_some(part.offset + offset, bytes.subspan(done, left));
        done += count;
        if (count < left) return done;
      }
      offset -= std::min(offset, part.length);
    }
    return done;
  }

 private:
  std::shared_ptr<const ByteSource> file_;
  std::vector<Extent> parts_;
  std::uint64_t size_ = 0;
};

}  // namespace

SourceFile SourceFile::within(std::vector<Extent> parts) const {
  SourceFile file(path_, digest_);
  file.parts_ = std::move(parts);
  return file;
}

std::shared_ptr<const ByteSource> SourceFile::open() const {
  std::shared_ptr<const ByteSource> bytes = open_.lock();
  if (bytes != nullptr) return bytes;
  if (digest_ != nullptr)
    bytes = std::make_shared<FollowedFile>(path_, *digest_);
  else
    bytes = std::make_shared<InputFile>(path_, refuse_unnamed);
  if (!parts_.empty()) bytes = std::make_shared<PartsOfFile>(std::move(bytes), parts_);
  open_ = bytes;
  return bytes;
}

std::string_view SourceFile::head() const {
  if (head_.empty()) {
    std::string bytes(kSharedHeadBytes, '\0');
    bytes.resize(open()->read_some(0, std::as_writable_bytes(std::span(bytes))));
    head_ = std::move(bytes);
  }
  return head_;
}

std::shared_ptr<const ByteSource> SourceFile::hold() const {
  return in_context(concat("cannot read '", path_.string(), "'"), [this] {
    auto bytes = open();
    head();
    return bytes;
  });
}

std::string SourceFile::content(std::uint64_t limit) const {
  const auto bytes = open();
  if (bytes->size() > limit)
    throw DataError(concat("it has ", human_bytes(bytes->size()), "; at most ", human_bytes(limit),
                           " were expected"));
  std::string content(bytes->size(), '\0');
  content.resize(bytes->read_some(0, std::as_writable_bytes(std::span(content))));
  return content;
}

}  // namespace coldframe::frames
