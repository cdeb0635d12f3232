#include "cache/format/shard/shard_image.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "cache/format/format.h"
#include "cache/format/schema.h"
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
