#include "cache/store/shard_sequence.h"

#include <algorithm>
#include <set>

#include "cache/format/format.h"
#include "cache/format/shard.h"
#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

constexpr std::size_t kMaxReason = 4000;
// With a cut, a shard of the usual size would hold an exam or two, and a cache ten thousand shards.
constexpr std::uint64_t kUsualShardBytes = 8ull << 20, kCutShardBytes = 64ull << 20;
constexpr std::size_t kImageOverhead = 1 << 20;  // HDF5's own structures, with room to spare

void check_text(const std::string& exam, const std::string& what, const std::string& value) {
  const char* problem = !is_valid_utf8(value)                   ? "is not UTF-8"
                        : value.find('\0') != std::string::npos ? "contains a NUL character"
                        : value.size() > kMaxText               ? "is too long"
                                                                : nullptr;
  if (problem == nullptr) return;
  throw DataError(concat("exam '", is_valid_utf8(exam) ? exam : "?", "': ", what, " ", problem,
                         " (", value.size(), " bytes; at most ", kMaxText,
                         " bytes of UTF-8 can be stored)"));
}

void check_column_name(const ExamInfo& info, const std::string& name, std::set<std::string>& seen) {
  check_text(info.id, "the name of a column", name);
  const std::size_t length = escape_name(name).size();
  if (length == 0 || length >= kMaxLinkName)
    throw DataError(concat("exam '", info.id, "': the column name '", name.substr(0, 40),
                           "' must have 1 to ", kMaxLinkName - 1, " bytes"));
  if (!seen.insert(name).second)
    throw DataError(concat("exam '", info.id, "': column '", name, "' occurs twice"));
}

// Every frame has a value in each column, and columns have different names.
void check_columns(const ExamInfo& info) {
  const auto check_count = [&](std::size_t count, const std::string& what) {
    if (count != info.frames())
      throw DataError(concat("exam '", info.id, "': ", count, " values of ", what, " for ",
                             plural(info.frames(), "frame")));
  };
  each_member(info, [&](const SchemaRow& row, const auto& value) {
    if constexpr (requires { texts_of(value.front()); }) {
      std::set<std::string> seen;
      for (const auto& column : value) {
        check_column_name(info, column.name, seen);
        if (row.axis == Axis::kFrame)
          check_count(texts_of(column).size(), concat("frame column '", column.name, "'"));
      }
    } else if constexpr (requires { value.size(); }) {
      if (row.axis == Axis::kFrame) check_count(value.size(), row.name);
    }
  });
}

void check_info(const ExamInfo& info) {
  each_text(info, [&](const SchemaRow& row, const std::string& name, const std::string& text) {
    check_text(info.id, name.empty() ? concat("its ", row.name) : concat("column '", name, "'"),
               text);
  });
  if (info.id.empty()) throw DataError("an exam without an id cannot be stored");
  if (info.frames() == 0) throw DataError(concat("exam '", info.id, "' has no frames"));
  check_columns(info);
  for (const std::uint8_t mask : info.present)
    if (mask > 1) throw DataError(concat("exam '", info.id, "': `present` must be 0 or 1"));
}

// A failure is recorded whatever its text looks like.
std::string storable(std::string text, std::size_t longest) {
  const bool valid = is_valid_utf8(text);
  for (char& character : text)
    if (character == '\0' || (!valid && static_cast<unsigned char>(character) >= 0x80))
      character = '?';
  if (text.size() <= longest) return text;
  while (longest > 0 && (static_cast<unsigned char>(text[longest]) & 0xc0) == 0x80) --longest;
  return text.substr(0, longest);
}

}  // namespace

ShardSequence::ShardSequence(Location location, ShardHeader header, const WriterOptions& options)
    : location_(std::move(location)),
      options_(options),
      number_(next_shard_number(location_, options.worker)) {
  contents_.header = std::move(header);
  if (options_.max_shard_bytes == 0)
    options_.max_shard_bytes = contents_.header.cut ? kCutShardBytes : kUsualShardBytes;
}

void ShardSequence::start_clock() {
  if (empty()) started_ = std::chrono::steady_clock::now();
}

// A shard's memory is taken at once, written to and kept: a long job takes no more of it at its end
// than at its beginning, and one that does not fit fails early. (Thumbnails come on top: at most a
// shard's bytes once more.) The image of a shard without exams brings HDF5 in, and shows that the
// header can be stored.
void ShardSequence::take_memory() {
  if (!rows_.empty()) return;
  std::uint64_t of_frame = 0;
  for (std::size_t array = 0; array < header().arrays(); ++array)
    of_frame += header().row_bytes(array);
  std::vector<std::vector<std::byte>> rows;
  for (std::size_t array = 0; array < header().arrays(); ++array) {
    rows.emplace_back(options_.max_shard_bytes / of_frame * header().row_bytes(array));
    rows.back().clear();
  }
  rows_ = std::move(rows);  // all of them, or none
  image_.truncate(options_.max_shard_bytes + kImageOverhead);
  image_.truncate(0);
  ShardContents empty;
  empty.header = header();
  write_image(image_, empty, {});
}

std::uint64_t ShardSequence::image_bytes(const MetadataSize& size, std::uint64_t exams,
                                         std::uint64_t frames,
                                         std::uint64_t thumbnail_bytes) const {
  std::uint64_t bytes = size.bytes({exams, frames, 0, thumbnail_bytes}, header().arrays(),
                                   header().recipe.has_thumbnails());
  for (std::size_t array = 0; array < header().arrays(); ++array)
    bytes += frames * header().row_bytes(array);
  return bytes;
}

void ShardSequence::add(ExamInfo info, const FillRows& fill, Thumbnails thumbnails) {
  check_info(info);
  publish_if_due();
  MetadataSize size = size_;
  size.observe(info);
  const std::size_t exams = contents_.exams.size() + 1;
  if (exams > 1 &&
      (exams > options_.max_shard_exams ||
       image_bytes(size, exams, frames_ + info.frames(),
                   thumbnails_.size() + thumbnails.bytes.size()) > options_.max_shard_bytes)) {
    publish();
    size = {};
    size.observe(info);
  }
  StoredExam stored{std::move(info), {}, {}};
  stored.thumbnails = {std::move(thumbnails.sizes), xxh3_64(thumbnails.bytes)};
  if (contents_.exams.empty() && image_bytes(size, 1, stored.info.frames(),
                                             thumbnails.bytes.size()) > options_.max_shard_bytes)
    return publish_alone(std::move(stored), fill, thumbnails.bytes);
  size_ = std::move(size);
  start_clock();
  take_memory();
  for (std::size_t array = 0; array < rows_.size(); ++array)
    stored.checksums.push_back(append_rows(array, stored.info.frames(), fill, rows_[array]));
  thumbnails_.insert(thumbnails_.end(), thumbnails.bytes.begin(), thumbnails.bytes.end());
  frames_ += stored.info.frames();
  contents_.exams.push_back(std::move(stored));
}

std::uint64_t ShardSequence::append_rows(std::size_t array, std::size_t frames,
                                         const FillRows& fill, std::vector<std::byte>& to) const {
  const std::size_t before = to.size();
  to.resize(before + frames * header().row_bytes(array));
  const auto rows = std::span(to).subspan(before);
  fill(array, rows);
  return xxh3_64(rows);
}

void ShardSequence::add_failure(Failure failure) {
  publish_if_due();
  start_clock();
  for (const SchemaRow& row : rows_of(kFailures))
    if (const auto* text = std::get_if<std::string Failure::*>(&row.member))
      failure.*(*text) = storable(std::move(failure.*(*text)), kMaxReason);
  contents_.failures.push_back(std::move(failure));
}

void ShardSequence::publish_if_due() {
  if (empty()) return;
  const std::chrono::duration<double> age = std::chrono::steady_clock::now() - started_;
  if (age.count() >= options_.max_shard_seconds ||
      contents_.exams.size() >= options_.max_shard_exams ||
      contents_.failures.size() >= options_.max_shard_exams)
    publish();
}

void ShardSequence::publish() {
  if (empty()) return;
  publish_shard(next_path(), further_names(), contents_,
                {[this](std::size_t array, const Append& append) { append(rows_[array]); },
                 [this](const Append& append) { append(thumbnails_); }},
                image_);
  finish_shard();
}

void ShardSequence::publish_alone(StoredExam exam, const FillRows& fill,
                                  std::span<const std::byte> thumbnails) {
  publish();  // failures that are pending
  const std::size_t frames = exam.info.frames();
  std::vector<std::byte> rows;  // of one array: all of them may be gigabytes
  const auto fill_again = [&](std::size_t array) {
    rows.clear();
    return append_rows(array, frames, fill, rows);
  };
  for (std::size_t array = 0; array < header().arrays(); ++array)
    exam.checksums.push_back(fill_again(array));
  ShardContents alone;
  alone.header = header();
  alone.exams.push_back(std::move(exam));
  publish_large(next_path(), alone,
                {[&](std::size_t array, const Append& append) {
                   fill_again(array);
                   append(rows);
                 },
                 [&](const Append& append) { append(thumbnails); }},
                as_new(further_names()));
  contents_.exams = std::move(alone.exams);
  finish_shard();
}

NextName ShardSequence::further_names() {
  return [this] { return next_path(); };
}

std::filesystem::path ShardSequence::next_path() {
  return location_.shard_folder() / shard_name(options_.worker, number_++);
}

void ShardSequence::finish_shard() {
  const std::size_t published = contents_.exams.size();
  contents_.exams.clear();
  contents_.failures.clear();
  for (std::vector<std::byte>& rows : rows_) rows.clear();
  thumbnails_.clear();
  size_ = {};
  frames_ = 0;
  if (on_published) on_published(published);
}

void ShardSequence::set_precisions(std::vector<std::string> precisions) {
  if (contents_.header.precisions == precisions) return;
  publish();
  contents_.header.precisions = std::move(precisions);
}

void ShardSequence::set_views(std::vector<std::string> views) {
  if (contents_.header.views == views) return;
  publish();
  contents_.header.views = std::move(views);
  rows_.clear();
}

}  // namespace coldframe::cache
