#include "cache/format/shard.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <set>
#include <type_traits>
#include <vector>

#include "cache/format/format.h"
#include "cache/hdf5/file_writer.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

template <typename T, typename Owner>
constexpr hdf5::Type type_of(T Owner::*) {
  if constexpr (std::is_arithmetic_v<ItemOf<T>>) return dtype_of<ItemOf<T>>();
  return hdf5::kText;
}
constexpr hdf5::Type type_of(FrameCounts) {
  return DType::kUint64;
}
constexpr hdf5::Type type_of(ThumbnailBytes) {
  return DType::kUint8;
}

}  // namespace

hdf5::Type SchemaRow::type() const {
  return std::visit([](auto of) { return type_of(of); }, member);
}

bool SchemaRow::is_group() const {
  return std::holds_alternative<std::vector<ExamColumn> ExamInfo::*>(member) ||
         std::holds_alternative<std::vector<FrameColumn> ExamInfo::*>(member);
}

std::vector<const char*> groups_of(const ShardHeader& header) {
  std::vector<const char*> groups{kFeatures};
  if (header.cut) groups.push_back(kCut);
  groups.insert(groups.end(), {kFrames, kExams, kFailures});
  if (header.recipe.has_thumbnails()) groups.push_back(kThumbnails);
  return groups;
}

hdf5::DatasetSpec spec_of(const SchemaRow& row, const RowCounts& counts, std::size_t arrays) {
  hdf5::DatasetSpec spec{row.type(), 0, counts.along(row.axis), {}};
  if (std::holds_alternative<std::vector<std::uint64_t> StoredExam::*>(row.member))
    spec.row_shape = {arrays};
  return spec;
}

void MetadataSize::observe(const ExamInfo& info) {
  each_text(info, [&](const SchemaRow& row, const std::string& name, const std::string& text) {
    std::uint64_t& longest = longest_[{&row, name}];
    longest = std::max<std::uint64_t>({longest, text.size(), 1});
  });
}

std::uint64_t MetadataSize::bytes(const RowCounts& counts, std::size_t arrays,
                                  bool thumbnails) const {
  std::uint64_t bytes = 0;
  for (const SchemaRow& row : kSchema) {
    if (row.type() == hdf5::kText || (row.group == std::string_view(kThumbnails) && !thumbnails))
      continue;
    const hdf5::DatasetSpec spec = spec_of(row, counts, arrays);
    bytes += spec.rows * spec.row_bytes();
  }
  for (const auto& [place, longest] : longest_) bytes += counts.along(place.first->axis) * longest;
  return bytes;
}

namespace {

using hdf5::DatasetReader;
using hdf5::DatasetSpec;
using hdf5::FileReader;
using hdf5::require;

// Every exam carries the names of all columns: few bytes of a file could ask for much memory.
constexpr std::uint64_t kMaxBytesOfNames = 4ull << 30;

void require_names(const FileReader& file, const std::string& group, std::set<std::string> wanted) {
  for (const std::string& name : file.names(group))
    require(wanted.erase(name) == 1,
            concat("unexpected object '", name, "' in ", group,
                   "; a newer version of the format, or not written by Coldframe"));
  require(wanted.empty(), concat(wanted.empty() ? "" : *wanted.begin(), " is missing in ", group));
}

// "float16 [12, 384]"
std::string shape_text(hdf5::Type type, std::uint64_t rows,
                       const std::vector<std::uint64_t>& row_shape) {
  std::string text = concat(hdf5::type_name(type), " [", rows);
  for (const std::uint64_t size : row_shape) text += concat(", ", size);
  return text + "]";
}

DatasetReader open_rows(const FileReader& file, const std::string& path,
                        const DatasetSpec& expected) {
  DatasetReader dataset = file.dataset(path);
  const DatasetSpec& spec = dataset.spec();
  if (spec.type != expected.type || spec.rows != expected.rows ||
      spec.row_shape != expected.row_shape)
    throw CacheError(concat(path, " is ", shape_text(spec.type, spec.rows, spec.row_shape),
                            " where ", shape_text(expected.type, expected.rows, expected.row_shape),
                            " was expected"));
  return dataset;
}

template <typename T>
std::vector<T> read_rows(const DatasetReader& dataset) {
  const DatasetSpec& spec = dataset.spec();
  std::vector<T> values(spec.rows * spec.row_bytes() / sizeof(T));
  dataset.read_rows(0, spec.rows, std::as_writable_bytes(std::span(values)));
  return values;
}

std::vector<std::string> read_texts(const DatasetReader& dataset, const std::string& path) {
  const std::vector<std::byte> bytes = read_rows<std::byte>(dataset);
  const std::size_t width = dataset.spec().text_bytes;
  std::vector<std::string> texts;
  texts.reserve(dataset.spec().rows);
  for (std::uint64_t row = 0; row < dataset.spec().rows; ++row) {
    texts.push_back(hdf5::unpad(std::span(bytes).subspan(row * width, width)));
    if (!is_valid_utf8(texts.back()) || texts.back().find('\0') != std::string::npos)
      throw CacheError(concat(path, ": row ", row, " is not UTF-8 text"));
  }
  return texts;
}

Recipe read_recipe(const FileReader& file) {
  Recipe recipe;
  try {
    recipe = recipe_from_json(parse_json(file.text_attribute(kAttributeRecipe), "the recipe"));
    if (file.has_attribute(kAttributeNotes))
      recipe.notes = parse_json(file.text_attribute(kAttributeNotes), "the notes");
  } catch (const DataError& error) {
    throw CacheError(error.what());
  }
  require(file.text_attribute(kAttributeFeatureDigest) == recipe.feature_digest() &&
              file.text_attribute(kAttributeCacheDigest) == recipe.cache_digest(),
          "the digests do not belong to the recipe");
  require(recipe.notes.is_object(), "the notes are not an object");
  return recipe;
}

ShardHeader read_header(const FileReader& file) {
  require(file.text_attribute(kAttributeFormat) == kFormatName, "not a Coldframe cache");
  const std::int64_t version = file.integer_attribute(kAttributeVersion);
  require(version == kFormatVersion,
          concat("format version ", version, ", but this program reads version ", kFormatVersion,
                 "; use the version of Coldframe that wrote it"));
  ShardHeader header;
  header.recipe = read_recipe(file);
  header.dimension = file.integer_attribute(kAttributeDimension);
  require(header.dimension > 0 && header.dimension <= kLargestDimension,
          concat("dimension ", header.dimension, " is impossible"));
  const std::string storage = file.text_attribute(kAttributeStorage);
  const auto type = value_for(kStorageTypes, storage);
  require(type.has_value(), "unknown storage '" + storage + "'");
  header.storage = *type;
  header.precisions = file.texts_attribute(kAttributePrecision);
  header.views = file.texts_attribute(kAttributeViews);
  require(!header.views.empty() && header.views.front() == "clean", "there is no view 'clean'");
  header.cut = find_cut(header.recipe, header.storage);
  return header;
}

// Returns the number of frames.
std::uint64_t check_arrays(const FileReader& file, const ShardHeader& header) {
  std::set<std::string> names;
  for (const std::string& view : header.views)
    require(names.insert(escape_name(view)).second, "view '" + view + "' is listed twice");
  require_names(file, kFeatures, names);
  if (header.cut) require_names(file, kCut, names);
  std::uint64_t frames = 0;
  for (std::size_t i = 0; i < header.arrays(); ++i) {
    const RowArray array = header.array(i);
    const DatasetSpec spec = file.dataset(array.path).spec();
    if (i == 0) frames = spec.rows;
    require(spec.type == array.type && spec.row_shape == array.row_shape,
            concat("the ", array.name, " are ", shape_text(spec.type, spec.rows, spec.row_shape),
                   ", not ", shape_text(array.type, frames, array.row_shape), " as announced"));
    require(spec.rows == frames, "views differ in their frames");
  }
  return frames;
}

template <typename T>
void assign(T& place, std::span<T> part) {
  place = std::move(part.front());
}
template <typename T>
void assign(std::vector<T>& place, std::span<T> part) {
  place.assign(std::move_iterator(part.begin()), std::move_iterator(part.end()));
}
void assign(ExamColumn& column, std::span<std::string> part) {
  assign(column.value, part);
}
void assign(FrameColumn& column, std::span<std::string> part) {
  assign(column.values, part);
}

// Reads the datasets of the schema: an overload of read() for each kind of member. What the detail
// leaves out is only checked for its type and shape.
class SchemaReader {
 public:
  // `frames`: of all exams together.
  SchemaReader(const FileReader& file, ShardContents& contents, std::uint64_t frames,
               Detail detail);
  void read(const SchemaRow& row) {
    std::visit([&](auto member) { read(row, member); }, row.member);
  }

 private:
  // Nothing where the detail leaves the row out.
  template <typename T>
  std::vector<T> values_of(const SchemaRow& row, const std::string& path) const {
    const DatasetReader dataset =
        open_rows(file_, path, spec_of(row, counts_, contents_.header.arrays()));
    if (detail_ > row.detail) return {};
    if constexpr (std::is_same_v<T, std::string>)
      return read_texts(dataset, path);
    else
      return read_rows<T>(dataset);
  }
  // The part of all values that the i-th exam or failure has.
  template <typename T>
  std::span<T> part_of(std::vector<T>& values, const SchemaRow& row, std::size_t i) const {
    if (row.axis == Axis::kFrame || row.axis == Axis::kFrameBound)
      return std::span(values).subspan(offsets_[i], offsets_[i + 1] - offsets_[i]);
    const std::size_t size = values.size() / counts_.along(row.axis);
    return std::span(values).subspan(i * size, size);
  }

  template <typename T, typename Owner>
  void read(const SchemaRow& row, T Owner::*member) {
    auto values = values_of<ItemOf<T>>(row, row.path());
    if (values.empty()) return;
    if constexpr (std::is_same_v<ItemOf<T>, std::uint64_t>)
      if (row.axis == Axis::kFrameBound) bounds_to_sizes(values, row);
    each_value(contents_, member, [&, i = std::size_t{0}](T& place) mutable {
      assign(place, part_of(values, row, i++));
    });
  }
  template <typename Column>
  requires requires(Column column) { texts_of(column); }
  void read(const SchemaRow& row, std::vector<Column> ExamInfo::*member);
  void read(const SchemaRow&, FrameCounts) {}  // read_offsets() has read them
  void read(const SchemaRow& row, ThumbnailBytes) const {
    open_rows(file_, row.path(), spec_of(row, counts_, 0));
  }
  void read_offsets();
  void bounds_to_sizes(std::vector<std::uint64_t>& bounds, const SchemaRow& row);

  const FileReader& file_;
  ShardContents& contents_;
  Detail detail_;
  RowCounts counts_;
  std::vector<std::uint64_t> offsets_;  // [N+1]
};

SchemaReader::SchemaReader(const FileReader& file, ShardContents& contents, std::uint64_t frames,
                           Detail detail)
    : file_(file), contents_(contents), detail_(detail) {
  counts_.frames = frames;
  read_offsets();
  contents_.exams.resize(counts_.exams);
  const auto failures = rows_of(kFailures);
  counts_.failures = file_.dataset(failures.front().path()).spec().rows;
  contents_.failures.resize(counts_.failures);
}

// Says how many exams there are.
void SchemaReader::read_offsets() {
  const SchemaRow& row = *std::ranges::find(kSchema, Axis::kExamBound, &SchemaRow::axis);
  const std::string path = row.path();
  counts_.exams = std::max<std::uint64_t>(file_.dataset(path).spec().rows, 1) - 1;
  offsets_ = values_of<std::uint64_t>(row, path);
  require(offsets_.front() == 0 && offsets_.back() == counts_.frames &&
              std::ranges::adjacent_find(offsets_, std::greater_equal<>()) == offsets_.end(),
          path + " does not rise from 0 to the number of frames");
}

void SchemaReader::bounds_to_sizes(std::vector<std::uint64_t>& bounds, const SchemaRow& row) {
  require(bounds.front() == 0 && std::ranges::is_sorted(bounds),
          row.path() + " does not start at 0, or falls");
  counts_.thumbnail_bytes = bounds.back();
  std::adjacent_difference(bounds.begin(), bounds.end(), bounds.begin());
  bounds.erase(bounds.begin());
}

template <typename Column>
requires requires(Column column) {
  texts_of(column);
}
void SchemaReader::read(const SchemaRow& row, std::vector<Column> ExamInfo::*member) {
  std::uint64_t bytes = 0;
  for (const std::string& name : file_.names(row.path())) {
    bytes += name.size();
    require(counts_.exams == 0 || bytes <= kMaxBytesOfNames / counts_.exams,
            row.path() + " has names that would fill the memory");
    auto values = values_of<std::string>(row, join_path(row.path(), name));
    for (std::size_t i = 0; i < counts_.exams; ++i) {
      Column& column = (contents_.exams[i].info.*member).emplace_back();
      column.name = unescape_name(name);
      if (!values.empty()) assign(column, part_of(values, row, i));
    }
  }
}

void check_exams(const std::vector<StoredExam>& exams) {
  for (std::size_t i = 0; i < exams.size(); ++i) {
    const ExamInfo& info = exams[i].info;
    if (info.id.empty()) throw CacheError(concat("exam ", i, " has no id"));
    require(std::ranges::all_of(info.present, [](std::uint8_t mask) { return mask <= 1; }),
            "frames/present has values other than 0 and 1");
    const std::vector<std::uint64_t>& sizes = exams[i].thumbnails.sizes;
    for (std::size_t t = 0; t < sizes.size(); ++t)
      require((sizes[t] > 0) == (info.present[t] != 0),
              "thumbnails/offset and frames/present differ in which frames are missing");
  }
}

}  // namespace

ShardContents read_metadata(const FileReader& file, Detail detail) {
  ShardContents contents;
  contents.header = read_header(file);
  const std::vector<const char*> groups = groups_of(contents.header);
  require_names(file, "/", {groups.begin(), groups.end()});
  const std::uint64_t frames = check_arrays(file, contents.header);
  SchemaReader reader(file, contents, frames, detail);
  for (const char* group : groups) {
    if (rows_of(group).empty()) continue;  // features and cut
    const std::vector<std::string> there = file.names(group);
    const auto is_expected = [&](const SchemaRow& row) {
      return !row.is_optional || std::ranges::find(there, row.name) != there.end();
    };
    std::set<std::string> names;
    for (const SchemaRow& row : rows_of(group))
      if (is_expected(row)) names.insert(row.name);
    require_names(file, group, names);
    for (const SchemaRow& row : rows_of(group))
      if (is_expected(row)) reader.read(row);
  }
  check_exams(contents.exams);
  return contents;
}

namespace {

constexpr std::size_t kBlock = 256u << 10;  // stays in the second-level cache

// The superblock of version 3 (HDF5 File Format Specification, II.A): signature, version, sizes of
// offsets and lengths, flags, base address, extension address, end of file, …
constexpr unsigned char kSignature[] = {0x89, 'H', 'D', 'F', '\r', '\n', 0x1a, '\n'};
constexpr std::size_t kSuperblockBytes = 48;
constexpr std::size_t kVersionAt = 8, kOffsetSizeAt = 9, kLengthSizeAt = 10, kEndOfFileAt = 28;
constexpr unsigned char kSuperblockVersion = 3;

using Digest = std::array<std::byte, kDigestBytes>;

// Passes the bytes from `begin` to `end` on.
void update(Xxh3Stream& stream, const ByteSource& bytes, std::uint64_t begin, std::uint64_t end) {
  std::vector<std::byte> block(std::min<std::uint64_t>(kBlock, end - begin));
  for (std::uint64_t at = begin; at < end; at += block.size()) {
    const auto part = std::span(block).first(std::min<std::uint64_t>(block.size(), end - at));
    bytes.read_at(at, part);
    stream.update(part);
  }
}

Digest digest_of_first(const ByteSource& bytes, std::uint64_t size) {
  Xxh3Stream stream;
  update(stream, bytes, 0, size);
  return stream.digest();
}

// The chunks of features, cut and thumbnails, in the order of the file.
std::vector<hdf5::Extent> bulk_of(const hdf5::FileReader& reader) {
  std::vector<std::string> datasets;
  for (const std::string& group : reader.names("/")) {
    if (group == kFeatures || group == kCut)
      for (const std::string& view : reader.names(group))
        datasets.push_back(join_path(group, view));
    if (group == kThumbnails) datasets.push_back(kThumbnailData);
  }
  std::vector<hdf5::Extent> bulk;
  for (const std::string& path : datasets) {
    const std::vector<hdf5::Extent> chunks = reader.dataset(path).chunks();
    bulk.insert(bulk.end(), chunks.begin(), chunks.end());
  }
  std::sort(bulk.begin(), bulk.end(),
            [](const hdf5::Extent& a, const hdf5::Extent& b) { return a.begin < b.begin; });
  return bulk;
}

Digest metadata_digest(const ByteSource& bytes, const hdf5::FileReader& reader) {
  Xxh3Stream stream;
  std::uint64_t at = 0;
  for (const hdf5::Extent& chunk : bulk_of(reader)) {
    if (chunk.begin > at) update(stream, bytes, at, chunk.begin);
    at = std::max(at, chunk.end);
  }
  if (at < bytes.size()) update(stream, bytes, at, bytes.size());
  return stream.digest();
}

std::uint64_t end_of_hdf5(const InputFile& file) {
  const std::string name = file.path().string();
  if (file.size() == 0) throw CacheError(name + ": is empty (0 bytes), not a Coldframe cache");
  std::array<unsigned char, kSuperblockBytes> head{};
  file.read_some(0, std::as_writable_bytes(std::span(head)));
  if (std::memcmp(head.data(), kSignature, sizeof kSignature) != 0)
    throw CacheError(name + ": not an HDF5 file, hence not a Coldframe cache");
  if (head[kVersionAt] != kSuperblockVersion || head[kOffsetSizeAt] != 8 ||
      head[kLengthSizeAt] != 8)
    throw CacheError(name +
                     ": an HDF5 file, but not one that Coldframe wrote (other superblock version)");
  std::uint64_t end = 0;
  std::memcpy(&end, head.data() + kEndOfFileAt, sizeof end);
  return end;
}

void require_trailer(const InputFile& file, std::uint64_t end) {
  const std::uint64_t size = file.size();
  if (size >= kTrailerBytes && end == size - kTrailerBytes) return;
  if (end == size)
    throw CacheError(concat(file.path().string(),
                            ": an HDF5 file without Coldframe's checksum at its end, which h5py "
                            "(mode r+) and HDFView cut off when they only open and close a file; "
                            "`coldframe cache verify --repair` of the cache compares all that it "
                            "holds, and writes the checksum anew"));
  throw CacheError(concat(file.path().string(), ": truncated or damaged: ", size, " bytes where ",
                          end, " + ", kTrailerBytes, " were expected"));
}

// True if the last bytes are the checksum of all before them.
bool is_whole(const InputFile& file) {
  Digest expected{};
  file.read_at(file.size() - expected.size(), expected);
  return digest_of_first(file, file.size() - expected.size()) == expected;
}

[[noreturn]] void refuse_damage(const std::filesystem::path& path) {
  throw CacheError(path.string() +
                   ": damaged: its content does not match the checksum at its end; restore the "
                   "file, or delete it and extract again");
}

// CacheError: not the structure that this format has.
CheckedFile with_reader(CheckedFile file, hdf5::Checksums checksums) {
  try {
    file.reader = std::make_unique<hdf5::FileReader>(*file.bytes, checksums);
  } catch (const CacheError& error) {
    throw CacheError(concat(file.bytes->path().string(), ": ", error.what()));
  }
  return file;
}

}  // namespace

std::array<std::byte, kTrailerBytes> trailer_of(const ByteSource& bytes) {
  const Digest metadata = metadata_digest(bytes, hdf5::FileReader(bytes));
  Xxh3Stream whole;
  update(whole, bytes, 0, bytes.size());
  whole.update(metadata);
  std::array<std::byte, kTrailerBytes> trailer{};
  std::ranges::copy(metadata, trailer.begin());
  std::ranges::copy(whole.digest(), trailer.begin() + kDigestBytes);
  return trailer;
}

bool lacks_trailer(const std::filesystem::path& path) {
  const auto file = open_unchecked(path);
  return end_of_hdf5(*file) == file->size();
}

void write_trailer(const std::filesystem::path& path) {
  with_patience(path, [&] {
    const auto bytes = open_unchecked(path);
    AtomicFile file(path);
    std::vector<std::byte> block(kBlock);
    for (std::uint64_t at = 0; at < bytes->size(); at += kBlock) {
      block.resize(std::min<std::uint64_t>(kBlock, bytes->size() - at));
      bytes->read_at(at, block);
      file.append(block);
    }
    file.append(trailer_of(*bytes));
    file.finish();
  });
}

std::unique_ptr<InputFile> open_unchecked(const std::filesystem::path& path) {
  return std::make_unique<InputFile>(
      path, [](const std::filesystem::path& file, std::string_view reason) {
        throw CacheError(concat(file.string(), ": ", reason));
      });
}

CheckedFile open_checked(const std::filesystem::path& path, Check check) {
  CheckedFile file{open_unchecked(path), nullptr, 0};
  const InputFile& bytes = *file.bytes;
  file.size = bytes.size();
  const std::uint64_t end = end_of_hdf5(bytes);
  if (check == Check::kWithoutTrailer)
    return with_reader(std::move(file), hdf5::Checksums::kCompared);
  require_trailer(bytes, end);
  if (check == Check::kWhole && !is_whole(bytes)) refuse_damage(path);
  Digest expected{};
  bytes.read_at(end, expected);
  file.bytes->set_end(end);
  std::string fault;
  try {
    file = with_reader(std::move(file), hdf5::Checksums::kIgnored);
    if (metadata_digest(bytes, *file.reader) == expected) return file;
  } catch (const CacheError& error) {
    fault = error.what();
  }
  // A structure that makes no sense is damage, unless the writer meant it so.
  if (fault.empty() || !is_whole(*open_unchecked(path))) refuse_damage(path);
  throw CacheError(fault);
}

namespace {

using hdf5::DatasetSpec;
using hdf5::DatasetWriter;
using hdf5::FileWriter;

using Texts = std::vector<const std::string*>;

void write_texts(FileWriter& file, const std::string& path, const Texts& values) {
  DatasetSpec spec{hdf5::kText, 1, values.size(), {}};
  for (const std::string* value : values)
    spec.text_bytes = std::max(spec.text_bytes, value->size());
  DatasetWriter writer = file.add_dataset(path, spec);
  std::string field;
  for (const std::string* value : values) {
    field = *value;
    field.resize(spec.text_bytes, '\0');
    writer.append(std::as_bytes(std::span(field.data(), field.size())));
  }
  writer.finish();
}

void write_header(FileWriter& file, const ShardHeader& header) {
  file.set_attribute(kAttributeFormat, kFormatName);
  file.set_attribute(kAttributeVersion, kFormatVersion);
  file.set_attribute(kAttributeWriter, concat("coldframe ", kVersion));
  file.set_attribute(kAttributeRecipe, to_json(header.recipe).dump());
  if (!header.recipe.notes.empty()) file.set_attribute(kAttributeNotes, header.recipe.notes.dump());
  file.set_attribute(kAttributeFeatureDigest, header.recipe.feature_digest());
  file.set_attribute(kAttributeCacheDigest, header.recipe.cache_digest());
  file.set_attribute(kAttributeDimension, header.dimension);
  file.set_attribute(kAttributeStorage, std::string(dtype_name(header.storage)));
  file.set_attribute(kAttributePrecision, header.precisions);
  file.set_attribute(kAttributeViews, header.views);
}

void write_arrays(FileWriter& file, const ShardContents& contents, const ExamBytes& bytes) {
  const ShardHeader& header = contents.header;
  std::uint64_t frames = 0;
  for (const StoredExam& exam : contents.exams) frames += exam.info.frames();
  file.add_group(kFeatures);
  if (header.cut) file.add_group(kCut);
  for (std::size_t i = 0; i < header.arrays(); ++i) {
    const RowArray array = header.array(i);
    DatasetWriter writer = file.add_dataset(array.path, {array.type, 0, frames, array.row_shape});
    if (frames > 0) bytes.rows(i, [&](std::span<const std::byte> rows) { writer.append(rows); });
    writer.finish();
  }
}

// The names of the input's columns in order of first appearance, each with the text of every row.
class NamedTexts {
 public:
  explicit NamedTexts(std::uint64_t rows) : rows_(rows) {}
  void set(const std::string& name, std::size_t row, std::span<const std::string> texts) {
    const auto [entry, is_new] = places_.emplace(name, values_.size());
    if (is_new) {
      names_.push_back(escape_name(name));
      values_.emplace_back(rows_, &empty_);
    }
    for (const std::string& text : texts) values_[entry->second][row++] = &text;
  }
  void write(FileWriter& file, const std::string& group) const {
    file.add_group(group, names_);
    for (std::size_t i = 0; i < names_.size(); ++i)
      write_texts(file, join_path(group, names_[i]), values_[i]);
  }

 private:
  std::string empty_;
  std::uint64_t rows_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::string> names_;
  std::vector<Texts> values_;
};

template <typename T>
bool is_unknown(T value) {
  return value != value;
}

// Writes the datasets of the schema: an overload of write() for each kind of member.
class SchemaWriter {
 public:
  SchemaWriter(FileWriter& file, const ShardContents& contents, const ExamBytes& bytes);
  void write(const SchemaRow& row) const {
    std::visit([&](auto member) { write(row, member); }, row.member);
  }

 private:
  template <typename T>
  void write_numbers(const SchemaRow& row, std::vector<T> values) const {
    if (row.axis == Axis::kExamBound || row.axis == Axis::kFrameBound) {
      values.insert(values.begin(), 0);
      std::partial_sum(values.begin(), values.end(), values.begin());
    }
    file_.add_dataset(row.path(), spec_of(row, counts_, contents_.header.arrays()),
                      std::as_bytes(std::span(values)));
  }
  template <typename T, typename Owner>
  void write(const SchemaRow& row, T Owner::*member) const {
    if constexpr (std::is_same_v<ItemOf<T>, std::string>) {
      Texts texts;
      each_value(contents_, member, [&](const T& value) {
        for (const std::string& text : items_of(value)) texts.push_back(&text);
      });
      write_texts(file_, row.path(), texts);
    } else {
      std::vector<ItemOf<T>> numbers;
      each_value(contents_, member, [&](const T& value) {
        numbers.insert(numbers.end(), items_of(value).begin(), items_of(value).end());
      });
      if (row.is_optional && std::ranges::all_of(numbers, is_unknown<ItemOf<T>>)) return;
      write_numbers(row, std::move(numbers));
    }
  }
  template <typename Column>
  requires requires(Column column) { texts_of(column); }
  void write(const SchemaRow& row, std::vector<Column> ExamInfo::*member) const {
    NamedTexts texts(counts_.along(row.axis));
    std::size_t first = 0;
    for (const StoredExam& exam : contents_.exams) {
      for (const Column& column : exam.info.*member)
        texts.set(column.name, first, texts_of(column));
      first += row.axis == Axis::kFrame ? exam.info.frames() : 1;
    }
    texts.write(file_, row.path());
  }
  void write(const SchemaRow& row, FrameCounts) const {
    std::vector<std::uint64_t> counts;
    for (const StoredExam& exam : contents_.exams) counts.push_back(exam.info.frames());
    write_numbers(row, std::move(counts));
  }
  void write(const SchemaRow& row, ThumbnailBytes) const;

  FileWriter& file_;
  const ShardContents& contents_;
  const ExamBytes& bytes_;
  RowCounts counts_;
};

SchemaWriter::SchemaWriter(FileWriter& file, const ShardContents& contents, const ExamBytes& bytes)
    : file_(file), contents_(contents), bytes_(bytes) {
  counts_.exams = contents.exams.size();
  counts_.failures = contents.failures.size();
  for (const StoredExam& exam : contents.exams) {
    counts_.frames += exam.info.frames();
    counts_.thumbnail_bytes += exam.thumbnails.bytes();
  }
}

void SchemaWriter::write(const SchemaRow& row, ThumbnailBytes) const {
  DatasetWriter writer = file_.add_dataset(row.path(), spec_of(row, counts_, 0));
  if (counts_.thumbnail_bytes > 0)
    bytes_.thumbnails([&](std::span<const std::byte> bytes) { writer.append(bytes); });
  writer.finish();
}

}  // namespace

void write_image(hdf5::ByteStore& store, const ShardContents& contents, const ExamBytes& bytes) {
  FileWriter file(store);
  write_header(file, contents.header);
  write_arrays(file, contents, bytes);
  const SchemaWriter writer(file, contents, bytes);
  for (const char* group : groups_of(contents.header)) {
    if (rows_of(group).empty()) continue;  // features and cut
    file.add_group(group);
    for (const SchemaRow& row : rows_of(group)) writer.write(row);
  }
  file.close();
}

void publish_shard(const std::filesystem::path& path, const NextName& next,
                   const ShardContents& contents, const ExamBytes& bytes,
                   hdf5::MemoryStore& image) {
  image.truncate(0);
  write_image(image, contents, bytes);
  with_patience(path, [&] {
    AtomicFile file(path);
    file.append(image.bytes());
    file.append(trailer_of(image));
    file.finish_as_new(next);
  });
}

void publish_large(const std::filesystem::path& path, const ShardContents& contents,
                   const ExamBytes& bytes, const PublishAs& as) {
  with_patience(path, [&] {
    AtomicFile file(path);
    hdf5::AtomicFileStore store(file);
    write_image(store, contents, bytes);
    file.append(trailer_of(store));
    as(file);
  });
}

PublishAs as_new(NextName next) {
  return [next = std::move(next)](AtomicFile& file) { file.finish_as_new(next); };
}

PublishAs as_named(Existing existing) {
  return [existing](AtomicFile& file) { file.finish(existing); };
}

}  // namespace coldframe::cache
