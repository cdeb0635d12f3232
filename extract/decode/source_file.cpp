#include "extract/decode/source_file.h"

#include <fcntl.h>
#include <unistd.h>
#include <algorithm>
#include <span>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"

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

namespace {

constexpr std::uint64_t kDigestBlockBytes = 1 << 20;
constexpr std::uint64_t kLongHole = std::uint64_t{1} << 30;   // bytes
constexpr std::uint64_t kUnreadableSize = ~std::uint64_t{0};  // which no file has

std::vector<std::filesystem::path> distinct_files(const ExamSpec& exam) {
  std::vector<std::filesystem::path> files;
  std::set<std::filesystem::path> seen;
  for (const ExamItem& item : exam.items) {
    if (!item.path.empty() && seen.insert(item.path).second) files.push_back(item.path);
  }
  return files;
}

void add_number(std::uint64_t number, Xxh3Stream& digest) {
  digest.update(std::as_bytes(std::span(&number, 1)));
}

}  // namespace

std::string source_stamp(const ExamSpec& exam) {
  return files_stamp(distinct_files(exam));
}

SourceDigest::SourceDigest(const ExamSpec& exam) : files_(with_voxel_files(distinct_files(exam))) {}

// Where a file system does not tell of holes the file has none.
std::vector<SourceDigest::Hole> SourceDigest::long_holes(const std::filesystem::path& path,
                                                         std::uint64_t size) {
  std::vector<Hole> holes;
  const int file = size < kLongHole ? -1 : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  for (std::uint64_t at = 0; file >= 0 && at < size;) {
    const off_t begin = ::lseek(file, static_cast<off_t>(at), SEEK_HOLE);
    if (begin < 0) break;
    const off_t data = ::lseek(file, begin, SEEK_DATA);  // negative: the hole goes to the end
    const Hole hole{static_cast<std::uint64_t>(begin),
                    data < 0 ? size : static_cast<std::uint64_t>(data)};
    if (hole.end >= hole.begin + kLongHole) holes.push_back(hole);
    at = hole.end;
  }
  if (file >= 0) ::close(file);
  return holes;
}

void SourceDigest::turn_to(const std::filesystem::path& path) {
  const auto found = std::ranges::find(files_, path);
  const auto index = static_cast<std::size_t>(found - files_.begin());
  while (index < files_.size() && at_ < index) complete();
}

void SourceDigest::begin(const ByteSource& file) {
  if (begun_ && file.size() != size_)
    throw DataError(concat("'", files_[at_].string(), "' changed while it was read"));
  if (begun_) return;
  begun_ = true;
  before_ = digest_;
  size_ = file.size();
  holes_ = long_holes(files_[at_], size_);
  add_number(size_, digest_);  // keeps "ab", "c" and "a", "bc" apart
}

void SourceDigest::add(std::span<const std::byte> bytes) {
  digest_.update(bytes);
  done_ += bytes.size();
}

// May end early after a stop request.
void SourceDigest::read_until(const ByteSource& file, std::uint64_t end) {
  std::vector<std::byte> block(std::min(end - done_, kDigestBlockBytes));
  while (done_ < end && !stop_requested()) {
    const std::size_t wanted = std::min<std::uint64_t>(block.size(), end - done_);
    const std::size_t count = file.read_some(done_, std::span(block).first(wanted));
    if (count == 0) return;
    add(std::span(block).first(count));
  }
}

void SourceDigest::follow(const std::filesystem::path& path, const ByteSource& file,
                          std::uint64_t offset, std::span<const std::byte> bytes) {
  if (at_ == files_.size() || path != files_[at_]) return;
  const std::uint64_t end = offset + bytes.size();
  if (end <= done_) return;
  // A short gap is read here, such as a header that was read before the file's turn. A gap longer
  // than `bytes` waits for complete(): readers look at places far apart.
  if (offset > done_ && offset - done_ > bytes.size()) return;
  begin(file);
  if (!holes_.empty()) return;  // read_whole() passes over them
  try {
    read_until(file, std::max(offset, done_));
  } catch (const DataError&) {
    return;  // complete() tries again, and tells why: the reader has what it asked for
  }
  if (offset <= done_) add(bytes.subspan(done_ - offset));
  if (done_ == size_) next();
}

void SourceDigest::read_whole(const ByteSource& file) {
  const auto read_on = [&](std::uint64_t end) {
    read_until(file, end);
    if (done_ < end && stop_requested())
      throw Interrupted(concat("stopped while '", files_[at_].string(), "' was read"));
  };
  for (const Hole& hole : holes_) {
    read_on(hole.begin);
    add_number(hole.begin, digest_);
    add_number(hole.end - hole.begin, digest_);
    done_ = hole.end;
  }
  read_on(size_);
}

void SourceDigest::complete() {
  try {
    const InputFile file(files_[at_]);
    begin(file);
    read_whole(file);
  } catch (const DataError& error) {
    if (begun_) digest_ = before_;  // a file counts whole, or as one that cannot be read
    add_number(kUnreadableSize, digest_);
    faults_.emplace(files_[at_], error.what());
  }
  next();
}

std::string SourceDigest::finish(const std::set<std::filesystem::path>& were_read) {
  while (at_ < files_.size()) complete();
  for (const auto& [path, fault] : faults_)
    if (were_read.contains(path)) throw DataError(fault);
  return digest_.hex();
}

}  // namespace coldframe::frames
