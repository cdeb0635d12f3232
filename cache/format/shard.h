// The schema of a cache: a row for each dataset that describes exams, frames, failures and
// thumbnails binds its place in the file to what it holds in memory. Writing, reading, checks and
// sizes follow these rows, and a test holds FORMAT.md against them. (Features and cuts have a
// dataset for each view: ShardHeader::array.)
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "cache/format/contents.h"
#include "cache/format/format.h"
#include "cache/hdf5/file_reader.h"
#include "cache/hdf5/file_writer.h"
#include "common/files/file.h"
#include "common/files/publish/atomic_file.h"

namespace coldframe::cache {

// What a row of a dataset belongs to. Bounds are running sums from 0 on, one more than there are
// exams or frames: item i has what lies from row i to row i + 1.
enum class Axis { kExam, kExamBound, kFrame, kFrameBound, kFailure, kThumbnailByte };

struct FrameCounts {};     // of each exam
struct ThumbnailBytes {};  // come from outside of the contents

using Member =
    std::variant<std::string ExamInfo::*, std::uint64_t ExamInfo::*, std::uint32_t ExamInfo::*,
                 std::int32_t ExamInfo::*, double ExamInfo::*, std::vector<std::string> ExamInfo::*,
                 std::vector<double> ExamInfo::*, std::vector<std::uint8_t> ExamInfo::*,
                 std::vector<std::int64_t> ExamInfo::*, std::vector<ExamColumn> ExamInfo::*,
                 std::vector<FrameColumn> ExamInfo::*, std::string Failure::*,
                 std::uint64_t Failure::*, std::uint32_t Failure::*,
                 std::vector<std::uint64_t> StoredExam::*, std::uint64_t StoredThumbnails::*,
                 std::vector<std::uint64_t> StoredThumbnails::*, FrameCounts, ThumbnailBytes>;

struct SchemaRow {
  const char *group, *name;
  Axis axis;
  Member member;
  Detail detail = Detail::kWithoutSources;  // the least detail that loads it
  bool is_optional = false;  // a file has it only where the value of some exam is known (not NaN)

  std::string path() const { return join_path(group, name); }
  hdf5::Type type() const;  // that of the member
  bool is_group() const;    // with a dataset for each column that the input brought
};

// In the order in which they lie in the file.
inline constexpr SchemaRow kSchema[] = {
    {kFrames, "time_s", Axis::kFrame, &ExamInfo::time_s},
    {kFrames, "present", Axis::kFrame, &ExamInfo::present},
    {kFrames, "index", Axis::kFrame, &ExamInfo::frame_index, Detail::kWithoutPaths},
    {kFrames, "source", Axis::kFrame, &ExamInfo::frame_source, Detail::kAll},
    {kFrames, "columns", Axis::kFrame, &ExamInfo::frame_columns, Detail::kWithoutPaths},

    {kExams, "id", Axis::kExam, &ExamInfo::id},
    {kExams, "patient", Axis::kExam, &ExamInfo::patient},
    {kExams, "ordinal", Axis::kExam, &ExamInfo::ordinal},
    {kExams, "revision", Axis::kExam, &ExamInfo::revision},
    {kExams, "offset", Axis::kExamBound, FrameCounts{}},
    {kExams, "checksum", Axis::kExam, &StoredExam::checksums},
    {kExams, "start_time", Axis::kExam, &ExamInfo::start_time},
    {kExams, "elapsed_start", Axis::kExam, &ExamInfo::elapsed_start, Detail::kWithoutSources, true},
    {kExams, "source_stamp", Axis::kExam, &ExamInfo::source_stamp, Detail::kAll},
    {kExams, "source_digest", Axis::kExam, &ExamInfo::source_digest, Detail::kWithoutPaths},
    {kExams, "source_kind", Axis::kExam, &ExamInfo::source_kind},
    {kExams, "width", Axis::kExam, &ExamInfo::frame_width},
    {kExams, "height", Axis::kExam, &ExamInfo::frame_height},
    {kExams, "columns", Axis::kExam, &ExamInfo::columns},

    {kFailures, "exam", Axis::kFailure, &Failure::exam},
    {kFailures, "ordinal", Axis::kFailure, &Failure::ordinal},
    {kFailures, "revision", Axis::kFailure, &Failure::revision},
    {kFailures, "source", Axis::kFailure, &Failure::source},
    {kFailures, "reason", Axis::kFailure, &Failure::reason},

    {kThumbnails, "offset", Axis::kFrameBound, &StoredThumbnails::sizes},
    {kThumbnails, "checksum", Axis::kExam, &StoredThumbnails::checksum},
    {kThumbnails, "data", Axis::kThumbnailByte, ThumbnailBytes{}},
};

constexpr bool groups_lie_together() {
  for (std::size_t i = 1; i < std::size(kSchema); ++i) {
    const std::string_view left = kSchema[i - 1].group;
    if (kSchema[i].group == left) continue;
    for (std::size_t later = i + 1; later < std::size(kSchema); ++later)
      if (kSchema[later].group == left) return false;
  }
  return true;
}
static_assert(groups_lie_together(), "rows_of() takes the rows of a group as one piece");

// The rows of a group; none: an empty span.
inline std::span<const SchemaRow> rows_of(std::string_view group) {
  const auto is_of = [group](const SchemaRow& row) { return row.group == group; };
  const SchemaRow* const first = std::find_if(std::begin(kSchema), std::end(kSchema), is_of);
  return {first, std::find_if_not(first, std::end(kSchema), is_of)};
}

// The groups of a file in the order in which they lie in it.
std::vector<const char*> groups_of(const ShardHeader& header);

// How many rows datasets have.
struct RowCounts {
  std::uint64_t exams = 0, frames = 0, failures = 0, thumbnail_bytes = 0;
  std::uint64_t along(Axis axis) const {
    const std::uint64_t rows[] = {exams, exams + 1, frames, frames + 1, failures, thumbnail_bytes};
    return rows[static_cast<std::size_t>(axis)];
  }
};

// What the file says of a row's dataset, but for the length of its texts.
hdf5::DatasetSpec spec_of(const SchemaRow& row, const RowCounts& counts, std::size_t arrays);

// body(value) for the member's value in each exam or failure, in the order of the rows.
template <typename Contents, typename T, typename Owner, typename Body>
void each_value(Contents& contents, T Owner::*member, Body body) {
  if constexpr (std::is_same_v<Owner, Failure>) {
    for (auto& failure : contents.failures) body(failure.*member);
  } else {
    for (auto& exam : contents.exams) {
      if constexpr (std::is_same_v<Owner, ExamInfo>) body(exam.info.*member);
      if constexpr (std::is_same_v<Owner, StoredExam>) body(exam.*member);
      if constexpr (std::is_same_v<Owner, StoredThumbnails>) body(exam.thumbnails.*member);
    }
  }
}

// body(row, value) for each member of an exam that the schema has.
template <typename Body>
void each_member(const ExamInfo& info, Body body) {
  for (const SchemaRow& row : kSchema)
    std::visit(
        [&](auto member) {
          if constexpr (requires { info.*member; }) body(row, info.*member);
        },
        row.member);
}

// A value as a row of values: one, or those of a list.
template <typename T>
std::span<const T> items_of(const T& value) {
  return {&value, 1};
}
template <typename T>
std::span<const T> items_of(const std::vector<T>& values) {
  return values;
}
template <typename T>
using ItemOf = std::remove_const_t<typename decltype(items_of(std::declval<T>()))::element_type>;

// The texts of one of the input's columns.
inline std::span<const std::string> texts_of(const ExamColumn& column) {
  return items_of(column.value);
}
inline std::span<const std::string> texts_of(const FrameColumn& column) {
  return column.values;
}

// body(row, name, text) for each text of an exam; `name` is that of a column of the input, else "".
template <typename Body>
void each_text(const ExamInfo& info, Body body) {
  each_member(info, [&]<typename T>(const SchemaRow& row, const T& value) {
    static const std::string kNoName;
    if constexpr (requires { texts_of(value.front()); })
      for (const auto& column : value)
        for (const std::string& text : texts_of(column)) body(row, column.name, text);
    if constexpr (std::is_same_v<ItemOf<T>, std::string>)
      for (const std::string& text : items_of(value)) body(row, kNoName, text);
  });
}

// How many bytes the metadata of exams take in one file: numbers by their type, texts as many as
// the longest of their column.
class MetadataSize {
 public:
  void observe(const ExamInfo& info);
  std::uint64_t bytes(const RowCounts& counts, std::size_t arrays, bool thumbnails) const;

 private:
  std::map<std::pair<const SchemaRow*, std::string>, std::uint64_t> longest_;
};

// Loads and checks all that one file holds besides the features.

// CacheError (without the file's name) for whatever FORMAT.md does not allow.
ShardContents read_metadata(const hdf5::FileReader& file, Detail detail);

// The checksums after the end of the HDF5 data: of the metadata, which is compared when a file is
// opened, and of the whole file.

// XXH3-128 of all bytes but the chunks of features, cut and thumbnails, then XXH3-128 of all bytes
// and of the former. `bytes`: a file as FileWriter leaves it.
std::array<std::byte, kTrailerBytes> trailer_of(const ByteSource& bytes);

// The file as it is, errors of reading it being CacheErrors.
std::unique_ptr<InputFile> open_unchecked(const std::filesystem::path& path);

// Other programs that open a file for writing (h5py in mode r+, HDFView) cut the trailer off when
// they close it. CacheError where the file cannot be read at all.
bool lacks_trailer(const std::filesystem::path& path);
// Replaces a file that lacks the trailer by one that has it.
void write_trailer(const std::filesystem::path& path);

// kMetadata reads what is not features, cut or thumbnails, whose own checksums are compared when
// they are read; kWhole reads every byte, at several GB/s from the page cache. kWithoutTrailer
// opens a file that lacks it and compares HDF5's own checksums instead.
enum class Check { kMetadata, kWhole, kWithoutTrailer };

struct CheckedFile {
  std::unique_ptr<InputFile> bytes;  // without the trailer
  std::unique_ptr<hdf5::FileReader> reader;
  std::uint64_t size = 0;  // with the trailer
};

// CacheError: missing, not a cache, truncated, damaged.
CheckedFile open_checked(const std::filesystem::path& path, Check check);

// Lays out one file of a cache: contents and rows become HDF5 bytes and their trailer.

// Writes everything but the trailer. DataError when the metadata cannot be stored.
void write_image(hdf5::ByteStore& store, const ShardContents& contents, const ExamBytes& bytes);

// Gives further names, in the same folder, where another file has one.
using NextName = std::function<std::filesystem::path()>;

// Builds the file in memory, then publishes it without replacing any file: for shards, which are
// bounded. `image` is the buffer, which successive shards reuse.
void publish_shard(const std::filesystem::path& path, const NextName& next,
                   const ShardContents& contents, const ExamBytes& bytes, hdf5::MemoryStore& image);

// Builds the file on disk under a temporary name, then publishes it: for packing, and for exams
// that are larger than a shard.
using PublishAs = std::function<void(AtomicFile& file)>;
PublishAs as_new(NextName next);        // under the next free name
PublishAs as_named(Existing existing);  // under its own
void publish_large(const std::filesystem::path& path, const ShardContents& contents,
                   const ExamBytes& bytes, const PublishAs& as);

}  // namespace coldframe::cache
