#include "cache/format/shard/shard_metadata.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "cache/format/format.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

using hdf5::DatasetReader;
using hdf5::DatasetSpec;
using hdf5::FileReader;
using hdf5::require;
using hdf5::Type;

constexpr std::int64_t kLargestDimension = 1 << 20;
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
std::string shape_text(Type type, std::uint64_t rows, const std::vector<std::uint64_t>& row_shape) {
  std::string text = concat(hdf5::type_name(type), " [", rows);
  for (const std::uint64_t size : row_shape) text += concat(", ", size);
  return text + "]";
}

// read_texts and read_numbers both check this of a dataset before they read it.
DatasetReader open_rows(const FileReader& file, const std::string& path, Type type,
                        std::uint64_t rows, const std::vector<std::uint64_t>& row_shape = {}) {
  DatasetReader dataset = file.dataset(path);
  const DatasetSpec& spec = dataset.spec();
  if (spec.type != type || spec.rows != rows || spec.row_shape != row_shape)
    throw CacheError(concat(path, " is ", shape_text(spec.type, spec.rows, spec.row_shape),
                            " where ", shape_text(type, rows, row_shape), " was expected"));
  return dataset;
}

std::vector<std::byte> read_all(const FileReader& file, const std::string& path, Type type,
                                std::uint64_t rows, const std::vector<std::uint64_t>& row_shape,
                                DatasetSpec& spec) {
  const DatasetReader dataset = open_rows(file, path, type, rows, row_shape);
  spec = dataset.spec();
  std::vector<std::byte> bytes(spec.rows * spec.row_bytes());
  dataset.read_rows(0, spec.rows, bytes);
  return bytes;
}

template <typename T>
std::vector<T> read_numbers(const FileReader& file, const std::string& path, Type type,
                            std::uint64_t rows, const std::vector<std::uint64_t>& row_shape = {}) {
  DatasetSpec spec;
  const std::vector<std::byte> bytes = read_all(file, path, type, rows, row_shape, spec);
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

std::vector<std::string> read_texts(const FileReader& file, const std::string& path,
                                    std::uint64_t rows) {
  DatasetSpec spec;
  const std::vector<std::byte> bytes = read_all(file, path, Type::kText, rows, {}, spec);
  std::vector<std::string> texts;
  texts.reserve(rows);
  for (std::uint64_t row = 0; row < rows; ++row) {
    texts.push_back(hdf5::unpad(std::span(bytes).subspan(row * spec.text_bytes, spec.text_bytes)));
    if (!is_valid_utf8(texts.back()) || texts.back().find('\0') != std::string::npos)
      throw CacheError(concat(path, ": row ", row, " is not UTF-8 text"));
  }
  return texts;
}

struct NamedColumn {
  std::string name;
  std::vector<std::string> values;
};

std::vector<NamedColumn> read_columns(const FileReader& file, const std::string& group,
                                      std::uint64_t rows, std::uint64_t exams,
                                      bool with_values = true) {
  std::vector<NamedColumn> columns;
  std::uint64_t bytes = 0;
  for (const std::string& name : file.names(group)) {
    const std::string path = join_path(group, name);
    bytes += name.size();
    require(exams == 0 || bytes <= kMostBytesOfNames / exams,
            group + " has names that would fill the memory");
    columns.push_back({unescape_name(name), {}});
    if (with_values)
      columns.back().values = read_texts(file, path, rows);
    else
      open_rows(file, path, Type::kText, rows);
  }
  return columns;
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
  require(storage == "float16" || storage == "float32", "unknown storage '" + storage + "'");
  header.storage = storage == "float16" ? StorageType::kFloat16 : StorageType::kFloat32;
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

std::vector<std::uint64_t> read_offsets(const FileReader& file, std::uint64_t frames) {
  const std::string path = join_path(kExams, kExamOffset);
  const std::uint64_t size = file.dataset(path).spec().rows;
  const std::vector<std::uint64_t> offsets =
      read_numbers<std::uint64_t>(file, path, Type::kUint64, size);
  require(!offsets.empty() && offsets.front() == 0 && offsets.back() == frames &&
              std::adjacent_find(offsets.begin(), offsets.end(), std::greater_equal<>()) ==
                  offsets.end(),
          path + " does not rise from 0 to the number of frames");
  return offsets;
}

void read_exams(const FileReader& file, std::vector<StoredExam>& exams, std::size_t arrays,
                Detail detail) {
  require_names(file, kExams,
                {kExamId, kExamPatient, kExamOrdinal, kExamRevision, kExamOffset, kExamChecksum,
                 kExamStartTime, kExamSourceStamp, kExamSourceDigest, kExamSourceKind, kExamWidth,
                 kExamHeight, kColumns});
  const std::size_t n = exams.size();
  const auto set_texts = [&](const char* name, std::string ExamInfo::*member) {
    std::vector<std::string> texts = read_texts(file, join_path(kExams, name), n);
    for (std::size_t i = 0; i < n; ++i) exams[i].info.*member = std::move(texts[i]);
  };
  const auto set_numbers = [&]<typename T>(const char* name, Type type, T ExamInfo::*member) {
    const std::vector<T> values = read_numbers<T>(file, join_path(kExams, name), type, n);
    for (std::size_t i = 0; i < n; ++i) exams[i].info.*member = values[i];
  };
  set_texts(kExamId, &ExamInfo::id);
  set_texts(kExamPatient, &ExamInfo::patient);
  set_numbers(kExamOrdinal, Type::kUint64, &ExamInfo::ordinal);
  set_numbers(kExamRevision, Type::kUint32, &ExamInfo::revision);
  set_numbers(kExamStartTime, Type::kFloat64, &ExamInfo::start_time);
  const auto set_texts_if = [&](bool wanted, const char* name, std::string ExamInfo::*member) {
    if (wanted)
      set_texts(name, member);
    else
      open_rows(file, join_path(kExams, name), Type::kText, n);
  };
  set_texts_if(detail == Detail::kAll, kExamSourceStamp, &ExamInfo::source_stamp);
  set_texts_if(detail != Detail::kWithoutSources, kExamSourceDigest, &ExamInfo::source_digest);
  set_texts(kExamSourceKind, &ExamInfo::source_kind);
  set_numbers(kExamWidth, Type::kInt32, &ExamInfo::frame_width);
  set_numbers(kExamHeight, Type::kInt32, &ExamInfo::frame_height);
  const std::vector<std::uint64_t> checksums = read_numbers<std::uint64_t>(
      file, join_path(kExams, kExamChecksum), Type::kUint64, n, {arrays});
  for (std::size_t i = 0; i < n; ++i) {
    const auto first = checksums.begin() + static_cast<std::ptrdiff_t>(i * arrays);
    exams[i].checksums.assign(first, first + static_cast<std::ptrdiff_t>(arrays));
    if (exams[i].info.id.empty()) throw CacheError(concat("exam ", i, " has no id"));
  }
  std::vector<NamedColumn> columns = read_columns(file, join_path(kExams, kColumns), n, n);
  for (std::size_t i = 0; i < n; ++i) {
    exams[i].info.columns.reserve(columns.size());
    for (NamedColumn& column : columns)
      exams[i].info.columns.push_back({column.name, std::move(column.values[i])});
  }
}

void read_frames(const FileReader& file, std::vector<StoredExam>& exams,
                 const std::vector<std::uint64_t>& offsets, Detail detail) {
  require_names(file, kFrames, {kFrameTime, kFramePresent, kFrameIndex, kFrameSource, kColumns});
  const std::uint64_t frames = offsets.back();
  const auto times =
      read_numbers<double>(file, join_path(kFrames, kFrameTime), Type::kFloat64, frames);
  const auto present =
      read_numbers<std::uint8_t>(file, join_path(kFrames, kFramePresent), Type::kUint8, frames);
  const bool with_paths = detail == Detail::kAll, with_frames = detail != Detail::kWithoutSources;
  std::vector<std::int64_t> index;
  std::vector<std::string> sources;
  if (with_frames)
    index = read_numbers<std::int64_t>(file, join_path(kFrames, kFrameIndex), Type::kInt64, frames);
  else
    open_rows(file, join_path(kFrames, kFrameIndex), Type::kInt64, frames);
  if (with_paths)
    sources = read_texts(file, join_path(kFrames, kFrameSource), frames);
  else
    open_rows(file, join_path(kFrames, kFrameSource), Type::kText, frames);
  auto columns =
      read_columns(file, join_path(kFrames, kColumns), frames, exams.size(), with_frames);
  require(std::all_of(present.begin(), present.end(), [](std::uint8_t mask) { return mask <= 1; }),
          "frames/present has values other than 0 and 1");
  for (std::size_t i = 0; i < exams.size(); ++i) {
    ExamInfo& info = exams[i].info;
    const auto first = static_cast<std::ptrdiff_t>(offsets[i]);
    const auto last = static_cast<std::ptrdiff_t>(offsets[i + 1]);
    const auto set_part = [&](auto& part, auto& values) {
      part.assign(std::make_move_iterator(values.begin() + first),
                  std::make_move_iterator(values.begin() + last));
    };
    set_part(info.time_s, times);
    set_part(info.present, present);
    if (with_frames) set_part(info.frame_index, index);
    if (with_paths) set_part(info.frame_source, sources);
    info.frame_columns.reserve(columns.size());
    for (NamedColumn& column : columns) {
      info.frame_columns.push_back({column.name, {}});
      if (with_frames) set_part(info.frame_columns.back().values, column.values);
    }
  }
}

void read_thumbnail_sizes(const FileReader& file, std::vector<StoredExam>& exams,
                          const std::vector<std::uint64_t>& frame_offsets) {
  require_names(file, kThumbnails, {kThumbnailData, kThumbnailOffset, kThumbnailChecksum});
  const std::string path = join_path(kThumbnails, kThumbnailOffset);
  const auto offsets =
      read_numbers<std::uint64_t>(file, path, Type::kUint64, frame_offsets.back() + 1);
  const auto checksums = read_numbers<std::uint64_t>(
      file, join_path(kThumbnails, kThumbnailChecksum), Type::kUint64, exams.size());
  const std::string data = join_path(kThumbnails, kThumbnailData);
  require(offsets.front() == 0 && std::is_sorted(offsets.begin(), offsets.end()),
          path + " does not start at 0, or falls");
  open_rows(file, data, Type::kUint8, offsets.back());
  for (std::size_t i = 0; i < exams.size(); ++i) {
    exams[i].thumbnails.checksum = checksums[i];
    std::vector<std::uint64_t>& sizes = exams[i].thumbnails.sizes;
    for (std::uint64_t frame = frame_offsets[i]; frame < frame_offsets[i + 1]; ++frame)
      sizes.push_back(offsets[frame + 1] - offsets[frame]);
    for (std::size_t t = 0; t < sizes.size(); ++t)
      require((sizes[t] > 0) == (exams[i].info.present[t] != 0),
              path + " and frames/present differ in which frames are missing");
  }
}

std::vector<Failure> read_failures(const FileReader& file) {
  require_names(file, kFailures,
                {kFailureExam, kFailureOrdinal, kFailureRevision, kFailureSource, kFailureReason});
  const std::uint64_t n = file.dataset(join_path(kFailures, kFailureExam)).spec().rows;
  const auto path = [](const char* name) { return join_path(kFailures, name); };
  const auto exams = read_texts(file, path(kFailureExam), n);
  const auto ordinals = read_numbers<std::uint64_t>(file, path(kFailureOrdinal), Type::kUint64, n);
  const auto revisions =
      read_numbers<std::uint32_t>(file, path(kFailureRevision), Type::kUint32, n);
  const auto sources = read_texts(file, path(kFailureSource), n);
  const auto reasons = read_texts(file, path(kFailureReason), n);
  std::vector<Failure> failures;
  for (std::size_t i = 0; i < n; ++i)
    failures.push_back({exams[i], ordinals[i], revisions[i], sources[i], reasons[i]});
  return failures;
}

}  // namespace

ShardContents read_metadata(const FileReader& file, Detail detail) {
  ShardContents contents;
  contents.header = read_header(file);
  std::set<std::string> groups = {kFeatures, kFrames, kExams, kFailures};
  if (contents.header.recipe.has_thumbnails()) groups.insert(kThumbnails);
  if (contents.header.cut) groups.insert(kCut);
  require_names(file, "/", groups);
  const std::uint64_t frames = check_arrays(file, contents.header);
  const std::vector<std::uint64_t> offsets = read_offsets(file, frames);
  contents.exams.resize(offsets.size() - 1);
  read_exams(file, contents.exams, contents.header.arrays(), detail);
  read_frames(file, contents.exams, offsets, detail);
  contents.failures = read_failures(file);
  if (contents.header.recipe.has_thumbnails()) read_thumbnail_sizes(file, contents.exams, offsets);
  return contents;
}

}  // namespace coldframe::cache
