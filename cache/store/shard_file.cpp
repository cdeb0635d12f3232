#include "cache/store/shard_file.h"

#include <atomic>

#include "cache/format/format.h"
#include "cache/format/shard.h"
#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

// Runs `step`; CacheErrors get the file's name.
template <typename Step>
void naming(const std::filesystem::path& path, Step step) {
  try {
    step();
  } catch (const CacheError& error) {
    throw CacheError(concat(path.string(), ": ", error.what()));
  }
}

std::atomic<std::size_t> open_shards{0};

}  // namespace

OpenShard::OpenShard() {
  ++open_shards;
}

OpenShard::~OpenShard() {
  --open_shards;
}

std::size_t OpenShard::count() {
  return open_shards;
}

ShardFile::ShardFile(const std::filesystem::path& path, Detail detail, Check check) : path_(path) {
  CheckedFile file = open_checked(path, check);
  auto open = std::make_shared<OpenShard>();
  open->file = std::move(file.bytes);
  open->reader = std::move(file.reader);
  identity_ = open->file->identity();
  bytes_ = file.size;
  end_ = open->file->size();
  naming(path_, [&] {
    contents_ = read_metadata(*open->reader, detail);
    open_arrays(*open);
    if (check == Check::kWithoutTrailer) open->reader->check_chunks();
  });
  bytes_read_ = open->file->bytes_read();
  open_ = std::move(open);
  offsets_ = thumbnail_offsets_ = {0};
  for (const StoredExam& exam : contents_.exams) {
    offsets_.push_back(offsets_.back() + exam.info.frames());
    thumbnail_offsets_.push_back(thumbnail_offsets_.back() + exam.thumbnails.bytes());
  }
}

void ShardFile::open_arrays(OpenShard& open) const {
  for (std::size_t i = 0; i < contents_.header.arrays(); ++i)
    open.arrays.push_back(open.reader->dataset(contents_.header.array(i).path));
  if (contents_.header.recipe.has_thumbnails())
    open.thumbnails = open.reader->dataset(kThumbnailData);
}

std::shared_ptr<const OpenShard> ShardFile::open() const {
  if (open_) return open_;
  auto again = std::make_shared<OpenShard>();
  again->file = open_unchecked(path_);
  if (again->file->identity() != identity_)
    throw CacheError(path_.string() + ": was replaced while it was being read; start again");
  again->file->set_end(end_);
  naming(path_, [&] {
    again->reader = std::make_unique<hdf5::FileReader>(*again->file);
    open_arrays(*again);
  });
  return again;
}

void ShardFile::read_run(const OpenShard& open, std::size_t first, std::size_t count,
                         std::size_t array, std::span<std::byte> rows) const {
  const std::uint64_t row = offsets_[first];
  naming(path_, [&] { open.arrays[array].read_rows(row, offsets_[first + count] - row, rows); });
}

void ShardFile::check_rows(const std::string& id, std::size_t array, std::uint64_t checksum,
                           std::span<const std::byte> rows) const {
  if (xxh3_64(rows) == checksum) return;
  throw CacheError(concat(path_.string(), ": exam '", id, "': the ",
                          contents_.header.array(array).name, " do not match their checksum"));
}

void ShardFile::read_thumbnails(const OpenShard& open, std::size_t exam,
                                std::span<std::byte> bytes) const {
  const std::uint64_t begin = thumbnail_offsets_[exam];
  naming(path_,
         [&] { open.thumbnails->read_rows(begin, thumbnail_offsets_[exam + 1] - begin, bytes); });
}

void ShardFile::check_thumbnails(const std::string& id, std::uint64_t checksum,
                                 std::span<const std::byte> bytes) const {
  if (xxh3_64(bytes) == checksum) return;
  throw CacheError(
      concat(path_.string(), ": exam '", id, "': the thumbnails do not match their checksum"));
}

}  // namespace coldframe::cache
