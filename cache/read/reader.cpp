#include "cache/read/reader.h"

#include <algorithm>

#include "cache/read/scan.h"
#include "cache/read/shard_set.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {

CacheReader::CacheReader(const std::filesystem::path& path, Detail detail)
    : shards_(std::make_unique<ShardSet>(locate(path), detail)) {
  shards_->forget_superseded();
}
CacheReader::~CacheReader() = default;
CacheReader::CacheReader(CacheReader&&) noexcept = default;
CacheReader& CacheReader::operator=(CacheReader&&) noexcept = default;

const Recipe& CacheReader::recipe() const {
  return shards_->header().recipe;
}
std::int64_t CacheReader::dimension() const {
  return shards_->header().dimension;
}
DType CacheReader::storage() const {
  return shards_->header().storage;
}
const std::vector<std::string>& CacheReader::views() const {
  return shards_->header().views;
}
const std::vector<std::string>& CacheReader::precisions() const {
  return shards_->header().precisions;
}
const std::vector<ExamInfo>& CacheReader::exams() const {
  return shards_->exams();
}
const std::vector<Failure>& CacheReader::failures() const {
  return shards_->failures();
}
std::vector<std::string> CacheReader::column_names() const {
  return cache::column_names(exams());
}
std::uint64_t CacheReader::bytes_on_disk() const {
  return shards_->bytes_on_disk();
}
std::uint64_t CacheReader::bytes_read() const {
  return shards_->bytes_read();
}
std::size_t CacheReader::shard_count() const {
  return shards_->files().size();
}
std::size_t CacheReader::find(const std::string& id) const {
  return shards_->find(id);
}
std::uint32_t CacheReader::next_revision(const std::string& id) const {
  return shards_->next_revision(id);
}
const std::vector<std::uint64_t>& CacheReader::checksums(std::size_t exam) const {
  return shards_->checksums(exam);
}

std::size_t CacheReader::view_index(const std::string& view) const {
  const auto found = std::ranges::find(views(), view);
  if (found == views().end())
    throw CacheError(concat("the cache has no view '", view, "'; it has ", join(views(), ", ")));
  return static_cast<std::size_t>(found - views().begin());
}

std::size_t CacheReader::cut_array(std::size_t view) const {
  if (!cut()) throw CacheError("the cache has no cut; `coldframe extract --cut BLOCK` stores one");
  if (view >= views().size())
    throw CacheError(concat("the cache has no view ", view, "; it has ", views().size()));
  return shards_->header().cut_of(view);
}

std::vector<float> CacheReader::features(std::size_t exam, const std::string& view) const {
  std::vector<float> values(exams().at(exam).frames() * static_cast<std::size_t>(dimension()));
  std::vector<std::byte> rows(values.size() * bytes_of(storage()));
  shards_->read_rows(exam, view_index(view), rows);
  convert(rows, storage(), std::span(values));
  return values;
}

void CacheReader::scan_stored(const std::string& view, std::span<const std::size_t> exams,
                              const VisitStored& body) const {
  scan_rows(*shards_, view_index(view), exams, body);
}

void CacheReader::scan(const std::string& view, std::span<const std::size_t> exams,
                       const Visit& body) const {
  std::vector<float> values;
  scan_stored(view, exams, [&](std::size_t exam, std::span<const std::byte> rows) {
    values.resize(rows.size() / bytes_of(storage()));
    convert(rows, storage(), std::span(values));
    body(exam, values);
  });
}

std::optional<Cut> CacheReader::cut() const {
  return shards_->header().cut;
}

void CacheReader::read_cut(std::size_t exam, std::size_t view, std::span<std::byte> rows) const {
  const std::size_t array = cut_array(view);
  const std::size_t expected = exams().at(exam).frames() * cut()->row_bytes();
  if (rows.size() != expected)
    throw CacheError(concat("the cut of exam '", exams()[exam].id, "' has ", expected,
                            " bytes, but room for ", rows.size(), " was given"));
  shards_->read_rows(exam, array, rows);
}

void CacheReader::scan_cut(std::size_t view, std::span<const std::size_t> exams,
                           const VisitStored& body) const {
  scan_rows(*shards_, cut_array(view), exams, body);
}

std::uint64_t CacheReader::thumbnail_bytes() const {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < exams().size(); ++i) bytes += shards_->thumbnails(i).bytes();
  return bytes;
}

std::vector<std::string> CacheReader::thumbnails(std::size_t exam) const {
  if (!recipe().has_thumbnails()) return {};
  const StoredThumbnails& stored = shards_->thumbnails(exam);
  std::string bytes(stored.bytes(), '\0');
  shards_->read_thumbnails(exam, std::as_writable_bytes(std::span(bytes)));
  std::vector<std::string> files;
  std::size_t at = 0;
  for (const std::uint64_t size : stored.sizes) {
    files.push_back(bytes.substr(at, size));
    at += size;
  }
  return files;
}

}  // namespace coldframe::cache
