#include "cache/read/shard_file.h"

#include "cache/format/format.h"
#include "cache/format/shard/shard_metadata.h"
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

}  // namespace

ShardFile::ShardFile(const std::filesystem::path& path, Detail detail, Check check) : path_(path) {
  CheckedFile file = open_checked(path, check);
  file_ = std::move(file.bytes);
  reader_ = std::move(file.reader);
  identity_ = file_->identity();
  bytes_ = file.size;
  end_ = file_->size();
  naming(path_, [&] {
    contents_ = read_metadata(*reader_, detail);
    open_arrays();
  });
  bytes_read_ = file_->bytes_read();
  offsets_ = thumbnail_offsets_ = {0};
  for (const StoredExam& exam : contents_.exams) {
    offsets_.push_back(offsets_.back() + exam.info.frames());
    thumbnail_offsets_.push_back(thumbnail_offsets_.back() + exam.thumbnails.bytes());
  }
}

void ShardFile::open_arrays() {
  for (std::size_t i = 0; i < contents_.header.arrays(); ++i)
    arrays_.push_back(reader_->dataset(contents_.header.array(i).path));
  if (contents_.header.recipe.has_thumbnails()) thumbnails_ = reader_->dataset(kThumbnailData);
}

void ShardFile::reopen() {
  auto again = open_unchecked(path_);
  if (again->identity() != identity_)
    throw CacheError(path_.string() + ": was replaced while it was being read; start again");
  again->set_end(end_);
  file_ = std::move(again);
  naming(path_, [&] {
    reader_ = std::make_unique<hdf5::FileReader>(*file_);
    open_arrays();
  });
}

void ShardFile::close() {
  arrays_.clear();
  thumbnails_.reset();
  reader_.reset();
  file_.reset();
}

void ShardFile::read_run(std::size_t first, std::size_t count, std::size_t array,
                         std::span<std::byte> rows) {
  if (!is_open()) reopen();
  const std::uint64_t row = offsets_[first];
  naming(path_, [&] { arrays_[array].read_rows(row, offsets_[first + count] - row, rows); });
}

void ShardFile::check_rows(const std::string& id, std::size_t array, std::uint64_t checksum,
                           std::span<const std::byte> rows) const {
  if (xxh3_64(rows) == checksum) return;
  throw CacheError(concat(path_.string(), ": exam '", id, "': the ",
                          contents_.header.array(array).name, " do not match their checksum"));
}

void ShardFile::read_thumbnails(std::size_t exam, std::span<std::byte> bytes) {
  if (!is_open()) reopen();
  const std::uint64_t begin = thumbnail_offsets_[exam];
  naming(path_,
         [&] { thumbnails_->read_rows(begin, thumbnail_offsets_[exam + 1] - begin, bytes); });
}

void ShardFile::check_thumbnails(const std::string& id, std::uint64_t checksum,
                                 std::span<const std::byte> bytes) const {
  if (xxh3_64(bytes) == checksum) return;
  throw CacheError(
      concat(path_.string(), ": exam '", id, "': the thumbnails do not match their checksum"));
}

}  // namespace coldframe::cache
