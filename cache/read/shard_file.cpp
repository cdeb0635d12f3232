#include "cache/read/shard_file.h"

#include <optional>

#include "cache/format/format.h"
#include "cache/format/shard/shard_metadata.h"
#include "cache/hdf5/file_reader.h"
#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::cache {

struct ShardFile::State {
  std::filesystem::path path;
  std::string identity;
  std::uint64_t bytes = 0, end = 0;  // with and without the trailer
  std::uint64_t bytes_read = 0;      // to open it
  ShardContents contents;
  std::vector<std::uint64_t> offsets;            // [N+1] rows of the arrays
  std::vector<std::uint64_t> thumbnail_offsets;  // [N+1] bytes

  std::unique_ptr<InputFile> bytes_of_file;
  std::unique_ptr<hdf5::FileReader> reader;
  std::vector<hdf5::DatasetReader> arrays;
  std::optional<hdf5::DatasetReader> thumbnails;

  // Runs `step`; CacheErrors get the file's name.
  template <typename Step>
  void naming_the_file(Step step) {
    try {
      step();
    } catch (const CacheError& error) {
      throw CacheError(concat(path.string(), ": ", error.what()));
    }
  }
  void open_arrays() {
    for (std::size_t i = 0; i < contents.header.arrays(); ++i)
      arrays.push_back(reader->dataset(contents.header.array(i).path));
    if (contents.header.recipe.has_thumbnails()) thumbnails = reader->dataset(kThumbnailData);
  }
  void reopen();
};

void ShardFile::State::reopen() {
  auto again = open_unchecked(path);
  if (again->identity() != identity)
    throw CacheError(path.string() + ": was replaced while it was being read; start again");
  again->set_end(end);
  bytes_of_file = std::move(again);
  naming_the_file([&] {
    reader = std::make_unique<hdf5::FileReader>(*bytes_of_file);
    open_arrays();
  });
}

ShardFile::ShardFile(const std::filesystem::path& path, Detail detail, Check check)
    : state_(std::make_unique<State>()) {
  State& state = *state_;
  state.path = path;
  CheckedFile file = open_checked(path, check);
  state.bytes_of_file = std::move(file.bytes);
  state.reader = std::move(file.reader);
  state.identity = state.bytes_of_file->identity();
  state.bytes = file.size;
  state.end = state.bytes_of_file->size();
  state.naming_the_file([&] {
    state.contents = read_metadata(*state.reader, detail);
    state.open_arrays();
  });
  state.bytes_read = state.bytes_of_file->bytes_read();
  state.offsets = state.thumbnail_offsets = {0};
  for (const StoredExam& exam : state.contents.exams) {
    state.offsets.push_back(state.offsets.back() + exam.info.frames());
    state.thumbnail_offsets.push_back(state.thumbnail_offsets.back() + exam.thumbnails.bytes());
  }
}

ShardFile::~ShardFile() {
  close();
}

const std::filesystem::path& ShardFile::path() const {
  return state_->path;
}
const ShardContents& ShardFile::contents() const {
  return state_->contents;
}
ShardContents& ShardFile::contents() {
  return state_->contents;
}
std::uint64_t ShardFile::bytes_on_disk() const {
  return state_->bytes;
}
std::uint64_t ShardFile::bytes_read() const {
  return state_->bytes_read;
}
bool ShardFile::is_open() const {
  return state_->reader != nullptr;
}

void ShardFile::close() {
  state_->arrays.clear();
  state_->thumbnails.reset();
  state_->reader.reset();
  state_->bytes_of_file.reset();
}

void ShardFile::forget_exams() {
  state_->contents.exams = std::vector<StoredExam>();  // `{}` would keep the memory
}

void ShardFile::read_run(std::size_t first, std::size_t count, std::size_t array,
                         std::span<std::byte> rows) {
  State& state = *state_;
  if (!is_open()) state.reopen();
  const std::uint64_t row = state.offsets[first];
  state.naming_the_file(
      [&] { state.arrays[array].read_rows(row, state.offsets[first + count] - row, rows); });
}

void ShardFile::check_rows(const std::string& id, std::size_t array, std::uint64_t checksum,
                           std::span<const std::byte> rows) const {
  if (xxh3_64(rows) == checksum) return;
  throw CacheError(concat(state_->path.string(), ": exam '", id, "': the ",
                          state_->contents.header.array(array).name,
                          " do not match their checksum"));
}

void ShardFile::read_thumbnails(std::size_t exam, std::span<std::byte> bytes) {
  State& state = *state_;
  if (!is_open()) state.reopen();
  const std::uint64_t begin = state.thumbnail_offsets[exam];
  state.naming_the_file([&] {
    state.thumbnails->read_rows(begin, state.thumbnail_offsets[exam + 1] - begin, bytes);
  });
}

void ShardFile::check_thumbnails(const std::string& id, std::uint64_t checksum,
                                 std::span<const std::byte> bytes) const {
  if (xxh3_64(bytes) == checksum) return;
  throw CacheError(concat(state_->path.string(), ": exam '", id,
                          "': the thumbnails do not match their checksum"));
}

}  // namespace coldframe::cache
