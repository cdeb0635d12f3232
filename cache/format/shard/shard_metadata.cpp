#include "cache/format/shard/shard_metadata.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <set>

#include "cache/format/format.h"
#include "cache/format/schema.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

using hdf5::DatasetReader;
using hdf5::DatasetSpec;
using hdf5::FileReader;
using hdf5::require;

// Every exam carries the names of all columns: few bytes of a file could ask for much memory.
constexpr std::uint64_t kMostBytesOfNames = 4ull << 30;

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
    require(counts_.exams == 0 || bytes <= kMostBytesOfNames / counts_.exams,
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

}  // namespace coldframe::cache
