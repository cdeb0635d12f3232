#include "cache/read/reader.h"

#include <algorithm>
#include <cstring>

#include "cache/read/joined_exams.h"
#include "cache/read/merged_streams.h"
#include "cache/read/multi_cache.h"
#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache {

struct CacheReader::State {
  State(std::span<const NamedCache> caches, Detail detail) : cache(caches, detail) {}
  MultiCache cache;
  std::optional<MergedStreams> merged;
  std::optional<JoinedExams> joined;  // of what is merged

  const std::vector<ExamInfo>& alone() const { return merged ? merged->exams : cache.exams(); }
  const std::vector<ExamInfo>& exams() const { return joined ? joined->exams : alone(); }
  std::span<const std::size_t> parts(const std::size_t& exam) const {
    return joined ? std::span<const std::size_t>(joined->parts[exam]) : std::span(&exam, 1);
  }
  std::size_t value_bytes() const { return bytes_of(cache.header().storage); }
  std::size_t row_bytes(std::size_t array) const {
    const std::size_t stored = cache.header().row_bytes(array);
    return merged ? merged->names.size() * (stored + value_bytes()) : stored;
  }
  // `rows`: of one part, as stored; to: as they are read.
  void arrange(std::size_t part, std::span<const std::byte> rows, std::span<std::byte> to) const {
    merge_rows(cache.exams()[part], merged->places[part], merged->names.size(), value_bytes(), rows,
               to);
  }
  void read(std::size_t exam, std::size_t array, std::span<std::byte> rows) const;
  void scan(std::size_t array, std::span<const std::size_t> exams, const VisitStored& body) const;
  std::vector<std::string> thumbnails(std::size_t part) const;

  std::size_t view_index(const std::string& view) const {
    const std::vector<std::string>& views = cache.header().views;
    const auto found = std::find(views.begin(), views.end(), view);
    if (found == views.end())
      throw CacheError(concat("the cache has no view '", view, "'; it has ", join(views, ", ")));
    return static_cast<std::size_t>(found - views.begin());
  }
  std::size_t cut_array(std::size_t view) const {
    const ShardHeader& header = cache.header();
    if (!header.cut)
      throw CacheError("the cache has no cut; `coldframe extract --cut BLOCK` stores one");
    if (merged) throw CacheError("the cut of merged streams cannot be read");
    if (view >= header.views.size())
      throw CacheError(concat("the cache has no view ", view, "; it has ", header.views.size()));
    return header.cut_of(view);
  }
};

void CacheReader::State::read(std::size_t exam, std::size_t array,
                              std::span<std::byte> rows) const {
  std::vector<std::byte> stored;
  for (const std::size_t part : parts(exam)) {
    const auto own = rows.first(alone()[part].frames() * row_bytes(array));
    rows = rows.subspan(own.size());
    if (!merged) {
      cache.read_rows(part, array, own);
      continue;
    }
    stored.resize(cache.exams()[part].frames() * cache.header().row_bytes(array));
    cache.read_rows(part, array, stored);
    arrange(part, stored, own);
  }
}

void CacheReader::State::scan(std::size_t array, std::span<const std::size_t> exams,
                              const VisitStored& body) const {
  if (!joined && !merged) return cache.scan(array, exams, body);
  std::vector<std::size_t> all;
  for (const std::size_t exam : exams)
    all.insert(all.end(), parts(exam).begin(), parts(exam).end());
  std::vector<std::byte> rows;
  std::size_t at = 0, read = 0;  // exam among `exams`, and parts of it
  cache.scan(array, all, [&](std::size_t part, std::span<const std::byte> stored) {
    const std::size_t before = rows.size();
    rows.resize(before + alone()[part].frames() * row_bytes(array));
    if (merged)
      arrange(part, stored, std::span(rows).subspan(before));
    else
      std::ranges::copy(stored, rows.begin() + static_cast<std::ptrdiff_t>(before));
    if (++read < parts(exams[at]).size()) return;
    body(exams[at++], rows);
    rows.clear();
    read = 0;
  });
}

std::vector<std::string> CacheReader::State::thumbnails(std::size_t part) const {
  const StoredThumbnails& stored = cache.one().thumbnails(part);
  std::string bytes(stored.bytes(), '\0');
  cache.one().read_thumbnails(part, std::as_writable_bytes(std::span(bytes)));
  std::vector<std::string> files;
  std::size_t at = 0;
  for (const std::uint64_t size : stored.sizes) {
    files.push_back(bytes.substr(at, size));
    at += size;
  }
  if (!merged || files.empty()) return files;
  std::vector<std::string> of_instants(merged->exams[part].frames());
  for (std::size_t frame = files.size(); frame-- > 0;)  // the first that there is is kept
    if (!files[frame].empty()) of_instants[merged->places[part][frame].instant] = files[frame];
  return of_instants;
}

CacheReader::CacheReader(const std::filesystem::path& path, Detail detail)
    : CacheReader(std::vector<NamedCache>{{"", path}}, detail) {}
CacheReader::CacheReader(std::span<const NamedCache> caches, Detail detail)
    : state_(std::make_unique<State>(caches, detail)) {}
CacheReader::~CacheReader() = default;
CacheReader::CacheReader(CacheReader&&) noexcept = default;
CacheReader& CacheReader::operator=(CacheReader&&) noexcept = default;

const Recipe& CacheReader::recipe() const {
  return state_->cache.header().recipe;
}
std::int64_t CacheReader::dimension() const {
  const std::int64_t stored = state_->cache.header().dimension;
  if (!state_->merged) return stored;
  return static_cast<std::int64_t>(
      merged_width(static_cast<std::size_t>(stored), state_->merged->names.size()));
}
DType CacheReader::storage() const {
  return state_->cache.header().storage;
}
const std::vector<std::string>& CacheReader::views() const {
  return state_->cache.header().views;
}
const std::vector<std::string>& CacheReader::precisions() const {
  return state_->cache.header().precisions;
}
const std::vector<ExamInfo>& CacheReader::exams() const {
  return state_->exams();
}
const std::vector<Failure>& CacheReader::failures() const {
  return state_->cache.failures();
}
std::uint64_t CacheReader::bytes_on_disk() const {
  return state_->cache.bytes_on_disk();
}
std::uint64_t CacheReader::bytes_read() const {
  return state_->cache.bytes_read();
}
std::size_t CacheReader::shard_count() const {
  return state_->cache.files();
}
std::size_t CacheReader::find(const std::string& id) const {
  return state_->cache.find(id);
}
std::uint32_t CacheReader::next_revision(const std::string& id) const {
  return state_->cache.one().next_revision(id);
}

const std::vector<std::uint64_t>& CacheReader::checksums(std::size_t exam) const {
  return state_->cache.checksums(exam);
}

std::vector<std::uint64_t> CacheReader::clean_checksums(std::size_t exam) const {
  return state_->cache.clean_checksums(exam);
}

std::vector<std::string> CacheReader::provenance(std::size_t exam) const {
  std::vector<std::string> facts;
  const auto parts = state_->parts(exam);
  for (const std::size_t part : parts) {
    const ExamInfo& info = state_->alone()[part];
    facts.insert(facts.end(), {std::to_string(info.revision), info.source_digest});
    if (parts.size() == 1 && !state_->merged) continue;
    for (const std::uint64_t sum : checksums(part)) facts.push_back(std::to_string(sum));
    if (!state_->merged) continue;
    for (const auto& [instant, stream] : state_->merged->places[part])
      facts.push_back(concat(instant, ":", stream));
  }
  return facts;
}

void CacheReader::join_exams(std::vector<std::vector<std::size_t>> parts,
                             std::span<const double> begin_s) {
  state_->joined = cache::join_exams(state_->alone(), std::move(parts), begin_s);
}

std::vector<std::size_t> CacheReader::parts_of(std::size_t exam) const {
  const auto parts = state_->parts(exam);
  return {parts.begin(), parts.end()};
}

std::size_t CacheReader::own_frames(std::size_t exam) const {
  const auto& present = state_->alone()[exam].present;
  return static_cast<std::size_t>(std::ranges::count_if(present, [](auto p) { return p != 0; }));
}

void CacheReader::merge_streams(const std::string& column, std::vector<std::string> names) {
  state_->merged = cache::merge_streams(state_->cache.exams(), column, std::move(names));
}

const std::vector<std::string>& CacheReader::streams() const {
  static const std::vector<std::string> kNone;
  return state_->merged ? state_->merged->names : kNone;
}

const std::vector<std::string>& CacheReader::cache_names() const {
  return state_->cache.names();
}

void CacheReader::require_agreed(const std::string& column) const {
  state_->cache.require_agreed(column);
}

std::string CacheReader::disputed_in(const std::string& column) const {
  if (!state_->merged) return "";
  const auto found = state_->merged->disputed.find(column);
  return found == state_->merged->disputed.end() ? "" : found->second;
}

StreamMatches CacheReader::stream_matches() const {
  return count_matches(state_->cache.exams(), *state_->merged);
}

bool CacheReader::has_stream(std::size_t exam, std::size_t stream) const {
  return std::ranges::any_of(state_->parts(exam), [&](std::size_t part) {
    return cache::has_stream(state_->cache.exams()[part], state_->merged->places[part], stream);
  });
}

std::vector<std::string> CacheReader::column_names() const {
  std::vector<std::string> names;
  for (const ExamInfo& exam : exams())
    for (const ExamColumn& column : exam.columns)
      if (std::find(names.begin(), names.end(), column.name) == names.end())
        names.push_back(column.name);
  return names;
}

std::vector<float> CacheReader::features(std::size_t exam, const std::string& view) const {
  std::vector<float> values(exams().at(exam).frames() * static_cast<std::size_t>(dimension()));
  read_features(exam, view, values);
  return values;
}

void CacheReader::read_features(std::size_t exam, const std::string& view,
                                std::span<float> destination) const {
  const std::size_t frames = exams().at(exam).frames();
  const std::size_t expected = frames * static_cast<std::size_t>(dimension());
  if (destination.size() != expected)
    throw CacheError(concat("exam '", exams()[exam].id, "' has ", expected,
                            " values, but room for ", destination.size(), " was given"));
  const std::size_t index = state_->view_index(view);
  if (storage() == DType::kFp32) {
    state_->read(exam, index, std::as_writable_bytes(destination));
    return;
  }
  std::vector<std::byte> rows(expected * bytes_of(storage()));
  state_->read(exam, index, rows);
  convert(rows, storage(), destination);
}

void CacheReader::scan_stored(const std::string& view, std::span<const std::size_t> exams,
                              const VisitStored& body) const {
  state_->scan(state_->view_index(view), exams, body);
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
  return state_->cache.header().cut;
}

void CacheReader::read_cut(std::size_t exam, std::size_t view, std::span<std::byte> rows) const {
  const std::size_t array = state_->cut_array(view);
  const std::size_t expected = exams().at(exam).frames() * cut()->row_bytes();
  if (rows.size() != expected)
    throw CacheError(concat("the cut of exam '", exams()[exam].id, "' has ", expected,
                            " bytes, but room for ", rows.size(), " was given"));
  state_->read(exam, array, rows);
}

void CacheReader::scan_cut(std::size_t view, std::span<const std::size_t> exams,
                           const VisitStored& body) const {
  state_->scan(state_->cut_array(view), exams, body);
}

std::uint64_t CacheReader::thumbnail_bytes() const {
  std::uint64_t bytes = 0;
  if (state_->cache.several()) return bytes;
  for (std::size_t i = 0; i < exams().size(); ++i)
    bytes += state_->cache.one().thumbnails(i).bytes();
  return bytes;
}

std::vector<std::string> CacheReader::thumbnails(std::size_t exam) const {
  if (!recipe().has_thumbnails() || state_->cache.several()) return {};
  std::vector<std::string> files;
  for (const std::size_t part : state_->parts(exam)) {
    const std::vector<std::string> own = state_->thumbnails(part);
    files.insert(files.end(), own.begin(), own.end());
  }
  return files;
}

const std::string& column_value(const ExamInfo& exam, const std::string& column) {
  static const std::string kNone;
  for (const ExamColumn& each : exam.columns)
    if (each.name == column) return each.value;
  return kNone;
}

}  // namespace coldframe::cache
