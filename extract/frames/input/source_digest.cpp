#include "extract/frames/input/source_digest.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/files/source_stamp.h"
#include "common/text/text.h"

namespace coldframe::frames {
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
