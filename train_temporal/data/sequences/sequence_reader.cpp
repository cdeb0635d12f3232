#include "train_temporal/data/sequences/sequence_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

const std::vector<std::string> kNoNames;

}  // namespace

SequenceReader::SequenceReader(const std::filesystem::path& path, cache::Detail detail)
    : SequenceReader(std::vector<NamedCache>{{"", path}}, detail) {}
SequenceReader::SequenceReader(std::span<const NamedCache> caches, cache::Detail detail) {
  for (const NamedCache& named : caches) caches_.emplace_back(named.path, detail);
  if (caches_.size() > 1) stacked_ = stack_caches(caches_, caches);
}

std::int64_t SequenceReader::dimension() const {
  const std::int64_t stored = caches_.front().dimension();
  if (!merged_) return stored;
  return static_cast<std::int64_t>(
      merged_width(static_cast<std::size_t>(stored), merged_->names.size()));
}

void SequenceReader::merge_streams(const std::string& column, std::vector<std::string> names) {
  merged_ = temporal::merge_streams(stored_exams(), column, std::move(names));
}

const std::vector<std::string>& SequenceReader::streams() const {
  return merged_ ? merged_->names : kNoNames;
}

const std::vector<std::string>& SequenceReader::cache_names() const {
  return stacked_ ? stacked_->names : kNoNames;
}

void SequenceReader::require_agreed(const std::string& column) const {
  if (!stacked_) return;
  const auto said = stacked_->contradictions.find(column);
  if (said != stacked_->contradictions.end()) throw DataError(said->second);
}

std::vector<std::uint64_t> SequenceReader::clean_checksums(std::size_t exam) const {
  if (!stacked_) return {caches_.front().checksums(exam).front()};
  std::vector<std::uint64_t> sums;
  for (const auto& [cache, own] : stacked_->parts[exam])
    sums.push_back(caches_[cache].checksums(own).front());
  return sums;
}

std::string SequenceReader::disputed_in(const std::string& column) const {
  if (!merged_) return "";
  const auto found = merged_->disputed.find(column);
  return found == merged_->disputed.end() ? "" : found->second;
}

bool SequenceReader::has_stream(std::size_t exam, std::size_t stream) const {
  return std::ranges::any_of(parts(exam), [&](std::size_t part) {
    return temporal::has_stream(stored_exams()[part], merged_->places[part], stream);
  });
}

void SequenceReader::join_exams(std::vector<std::vector<std::size_t>> parts,
                                std::span<const double> begin_s) {
  joined_ = temporal::join_exams(alone(), std::move(parts), begin_s);
}

std::vector<std::size_t> SequenceReader::parts_of(std::size_t exam) const {
  const auto own = parts(exam);
  return {own.begin(), own.end()};
}

std::vector<std::string> SequenceReader::provenance(std::size_t exam) const {
  std::vector<std::string> facts;
  const auto own = parts(exam);
  for (const std::size_t part : own) {
    const cache::ExamInfo& info = alone()[part];
    facts.insert(facts.end(), {std::to_string(info.revision), info.source_digest});
    if (own.size() == 1 && !merged_) continue;
    for (const std::uint64_t sum : checksums(part)) facts.push_back(std::to_string(sum));
    if (!merged_) continue;
    for (const auto& [instant, stream] : merged_->places[part])
      facts.push_back(concat(instant, ":", stream));
  }
  return facts;
}

void SequenceReader::append_rows(std::size_t part, std::span<const std::byte> stored,
                                 std::vector<std::byte>& rows) const {
  if (!merged_) {
    rows.insert(rows.end(), stored.begin(), stored.end());
    return;
  }
  const std::size_t before = rows.size(), value = bytes_of(storage());
  rows.resize(before + alone()[part].frames() * static_cast<std::size_t>(dimension()) * value);
  merge_rows(stored_exams()[part], merged_->places[part], merged_->names.size(), value, stored,
             std::span(rows).subspan(before));
}

template <typename Scan>
void SequenceReader::scan_parts(std::span<const std::size_t> exams, const Scan& scan,
                                const VisitStored& body) const {
  if (!joined_ && !merged_) return scan(exams, body);
  std::vector<std::size_t> all;
  for (const std::size_t& exam : exams) std::ranges::copy(parts(exam), std::back_inserter(all));
  std::vector<std::byte> rows;
  std::size_t at = 0, read = 0;  // exam among `exams`, and parts of it
  scan(all, [&](std::size_t part, std::span<const std::byte> stored) {
    append_rows(part, stored, rows);
    if (++read < parts(exams[at]).size()) return;
    body(exams[at++], rows);
    rows.clear();
    read = 0;
  });
}

void SequenceReader::scan_stored(const std::string& view, std::span<const std::size_t> exams,
                                 const VisitStored& body) const {
  const auto scan = [&](std::span<const std::size_t> parts, const VisitStored& each) {
    if (stacked_) return scan_stacked(caches_, *stacked_, view, parts, each);
    caches_.front().scan_stored(view, parts, each);
  };
  scan_parts(exams, scan, body);
}

std::optional<cache::Cut> SequenceReader::cut() const {
  return stacked_ ? std::nullopt : caches_.front().cut();
}

void SequenceReader::scan_cut(std::size_t view, std::span<const std::size_t> exams,
                              const VisitStored& body) const {
  if (merged_ || stacked_) throw CacheError("the cut of several streams cannot be read");
  const auto scan = [&](std::span<const std::size_t> parts, const VisitStored& each) {
    caches_.front().scan_cut(view, parts, each);
  };
  scan_parts(exams, scan, body);
}

std::vector<std::string> SequenceReader::thumbnails(std::size_t exam) const {
  if (stacked_) return {};
  std::vector<std::string> all;
  for (const std::size_t part : parts(exam)) {
    std::vector<std::string> files = caches_.front().thumbnails(part);
    if (merged_ && !files.empty()) {
      std::vector<std::string> of_instants(merged_->exams[part].frames());
      for (std::size_t frame = files.size(); frame-- > 0;)  // the first that there is is kept
        if (!files[frame].empty()) of_instants[merged_->places[part][frame].instant] = files[frame];
      files = std::move(of_instants);
    }
    all.insert(all.end(), files.begin(), files.end());
  }
  return all;
}

}  // namespace coldframe::temporal
