#include "cache/format/shard/shard_image.h"

#include <algorithm>
#include <map>

#include "cache/format/format.h"
#include "cache/format/shard/trailer.h"
#include "cache/hdf5/file_writer.h"
#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

using hdf5::DatasetSpec;
using hdf5::DatasetWriter;
using hdf5::FileWriter;
using hdf5::Type;

template <typename T>
constexpr Type type_of() {
  if constexpr (std::is_same_v<T, std::uint8_t>) return Type::kUint8;
  if constexpr (std::is_same_v<T, std::int32_t>) return Type::kInt32;
  if constexpr (std::is_same_v<T, std::int64_t>) return Type::kInt64;
  if constexpr (std::is_same_v<T, std::uint32_t>) return Type::kUint32;
  if constexpr (std::is_same_v<T, std::uint64_t>) return Type::kUint64;
  if constexpr (std::is_same_v<T, double>) return Type::kFloat64;
}

template <typename T>
void write_numbers(FileWriter& file, const std::string& path, const std::vector<T>& values,
                   std::uint64_t columns = 0) {
  DatasetSpec spec;
  spec.type = type_of<T>();
  spec.rows = columns == 0 ? values.size() : values.size() / columns;
  if (columns > 0) spec.row_shape = {columns};
  file.add_dataset(path, spec, std::as_bytes(std::span(values)));
}

using Texts = std::vector<const std::string*>;

void write_texts(FileWriter& file, const std::string& path, const Texts& values) {
  DatasetSpec spec;
  spec.type = Type::kText;
  spec.rows = values.size();
  spec.text_bytes = 1;
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
  file.set_attribute(kAttributeStorage, std::string(storage_name(header.storage)));
  file.set_attribute(kAttributePrecision, header.precisions);
  file.set_attribute(kAttributeViews, header.views);
}

void write_arrays(FileWriter& file, const ShardContents& contents, std::uint64_t frames,
                  const RowSource& rows) {
  const ShardHeader& header = contents.header;
  file.add_group(kFeatures);
  if (header.cut) file.add_group(kCut);
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < header.arrays(); ++i) {
    const RowArray array = header.array(i);
    DatasetWriter writer = file.add_dataset(array.path, {array.type, 0, frames, array.row_shape});
    for (std::size_t exam = 0; exam < contents.exams.size(); ++exam) {
      bytes.resize(contents.exams[exam].info.frames() * header.row_bytes(i));
      rows(exam, i, bytes);
      writer.append(bytes);
    }
    writer.finish();
  }
}

// The names of the columns in order of first appearance, each with the text of every row.
class Columns {
 public:
  explicit Columns(std::size_t rows) : rows_(rows) {}
  void set(const std::string& name, std::size_t row, const std::string& value) {
    const auto [entry, is_new] = places_.emplace(name, values_.size());
    if (is_new) {
      names_.push_back(&name);
      values_.emplace_back(rows_, &empty_);
    }
    values_[entry->second][row] = &value;
  }
  void write(FileWriter& file, const std::string& group) const {
    std::vector<std::string> escaped;
    for (const std::string* name : names_) escaped.push_back(escape_name(*name));
    file.add_group(group, escaped);
    for (std::size_t i = 0; i < names_.size(); ++i)
      write_texts(file, join_path(group, escaped[i]), values_[i]);
  }

 private:
  std::string empty_;
  std::size_t rows_;
  std::map<std::string, std::size_t> places_;
  std::vector<const std::string*> names_;
  std::vector<Texts> values_;
};

void write_frames(FileWriter& file, const ShardContents& contents, std::uint64_t frames) {
  std::vector<double> times;
  std::vector<std::uint8_t> present;
  std::vector<std::int64_t> index;
  Texts sources;
  Columns columns(frames);
  std::size_t row = 0;
  for (const StoredExam& exam : contents.exams) {
    const ExamInfo& info = exam.info;
    times.insert(times.end(), info.time_s.begin(), info.time_s.end());
    present.insert(present.end(), info.present.begin(), info.present.end());
    index.insert(index.end(), info.frame_index.begin(), info.frame_index.end());
    for (const std::string& source : info.frame_source) sources.push_back(&source);
    for (const FrameColumn& column : info.frame_columns)
      for (std::size_t t = 0; t < column.values.size(); ++t)
        columns.set(column.name, row + t, column.values[t]);
    row += info.frames();
  }
  file.add_group(kFrames);
  write_numbers(file, join_path(kFrames, kFrameTime), times);
  write_numbers(file, join_path(kFrames, kFramePresent), present);
  write_numbers(file, join_path(kFrames, kFrameIndex), index);
  write_texts(file, join_path(kFrames, kFrameSource), sources);
  columns.write(file, join_path(kFrames, kColumns));
}

template <typename Get>
auto gather(const std::vector<StoredExam>& exams, Get get) {
  std::vector<std::decay_t<decltype(get(exams.front().info))>> values;
  for (const StoredExam& exam : exams) values.push_back(get(exam.info));
  return values;
}

void write_exams(FileWriter& file, const ShardContents& contents) {
  const std::vector<StoredExam>& exams = contents.exams;
  const auto numbers = [&](const char* name, auto get) {
    write_numbers(file, join_path(kExams, name), gather(exams, get));
  };
  const auto texts = [&](const char* name, std::string ExamInfo::*member) {
    write_texts(file, join_path(kExams, name),
                gather(exams, [member](const ExamInfo& info) { return &(info.*member); }));
  };
  std::vector<std::uint64_t> offsets{0}, checksums;
  Columns columns(exams.size());
  for (std::size_t i = 0; i < exams.size(); ++i) {
    offsets.push_back(offsets.back() + exams[i].info.frames());
    checksums.insert(checksums.end(), exams[i].checksums.begin(), exams[i].checksums.end());
    for (const ExamColumn& column : exams[i].info.columns)
      columns.set(column.name, i, column.value);
  }
  file.add_group(kExams);
  texts(kExamId, &ExamInfo::id);
  texts(kExamPatient, &ExamInfo::patient);
  numbers(kExamOrdinal, [](const ExamInfo& info) { return info.ordinal; });
  numbers(kExamRevision, [](const ExamInfo& info) { return info.revision; });
  write_numbers(file, join_path(kExams, kExamOffset), offsets);
  write_numbers(file, join_path(kExams, kExamChecksum), checksums, contents.header.arrays());
  numbers(kExamStartTime, [](const ExamInfo& info) { return info.start_time; });
  texts(kExamSourceStamp, &ExamInfo::source_stamp);
  texts(kExamSourceDigest, &ExamInfo::source_digest);
  texts(kExamSourceKind, &ExamInfo::source_kind);
  numbers(kExamWidth, [](const ExamInfo& info) { return info.frame_width; });
  numbers(kExamHeight, [](const ExamInfo& info) { return info.frame_height; });
  columns.write(file, join_path(kExams, kColumns));
}

void write_failures(FileWriter& file, const std::vector<Failure>& failures) {
  Texts exams, sources, reasons;
  std::vector<std::uint64_t> ordinals;
  std::vector<std::uint32_t> revisions;
  for (const Failure& failure : failures) {
    exams.push_back(&failure.exam);
    sources.push_back(&failure.source);
    reasons.push_back(&failure.reason);
    ordinals.push_back(failure.ordinal);
    revisions.push_back(failure.revision);
  }
  file.add_group(kFailures);
  write_texts(file, join_path(kFailures, kFailureExam), exams);
  write_numbers(file, join_path(kFailures, kFailureOrdinal), ordinals);
  write_numbers(file, join_path(kFailures, kFailureRevision), revisions);
  write_texts(file, join_path(kFailures, kFailureSource), sources);
  write_texts(file, join_path(kFailures, kFailureReason), reasons);
}

void write_thumbnails(FileWriter& file, const ShardContents& contents, const ExamBytes& source) {
  std::vector<std::uint64_t> offsets{0}, checksums;
  for (const StoredExam& exam : contents.exams) {
    for (const std::uint64_t size : exam.thumbnails.sizes) offsets.push_back(offsets.back() + size);
    checksums.push_back(exam.thumbnails.checksum);
  }
  file.add_group(kThumbnails);
  write_numbers(file, join_path(kThumbnails, kThumbnailOffset), offsets);
  write_numbers(file, join_path(kThumbnails, kThumbnailChecksum), checksums);
  DatasetSpec spec;
  spec.rows = offsets.back();
  DatasetWriter writer = file.add_dataset(join_path(kThumbnails, kThumbnailData), spec);
  std::vector<std::byte> bytes;
  for (std::size_t exam = 0; exam < contents.exams.size(); ++exam) {
    bytes.resize(contents.exams[exam].thumbnails.bytes());
    source.thumbnails(exam, bytes);
    writer.append(bytes);
  }
  writer.finish();
}

}  // namespace

void write_image(hdf5::ByteStore& store, const ShardContents& contents, const ExamBytes& bytes) {
  std::uint64_t frames = 0;
  for (const StoredExam& exam : contents.exams) frames += exam.info.frames();
  FileWriter file(store);
  write_header(file, contents.header);
  write_arrays(file, contents, frames, bytes.rows);
  write_frames(file, contents, frames);
  write_exams(file, contents);
  write_failures(file, contents.failures);
  if (contents.header.recipe.has_thumbnails()) write_thumbnails(file, contents, bytes);
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
