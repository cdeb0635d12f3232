#include "cache/collection.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "common/error.h"
#include "common/text.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kMostOpenFiles = 64;

auto as_tuple(const Failure& failure) {
  return std::tie(failure.ordinal, failure.exam, failure.revision, failure.source, failure.reason);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

[[noreturn]] void refuse_nothing(const Location& location) {
  const std::string name = location.path.string();
  if (!is_there(location.path) && !is_there(location.shard_folder()))
    throw CacheError(name + ": there is no such cache; `coldframe extract --out` makes one");
  if (std::filesystem::is_regular_file(location.path))
    throw CacheError(name + ": a cache is a file whose name ends in .h5, or a folder of shards");
  throw CacheError(name + ": a folder without shards (shard-*.h5), hence not a cache");
}

}  // namespace

void require_same_cache(const ShardHeader& first, const ShardHeader& other,
                        const std::string& name) {
  std::vector<std::string> lines = differences(first.recipe, other.recipe);
  const auto compare = [&](const char* key, const std::string& cached, const std::string& now) {
    if (cached != now) lines.push_back(concat(key, ": cache has ", cached, ", now ", now));
  };
  compare("dimension", std::to_string(first.dimension), std::to_string(other.dimension));
  compare("storage", storage_name(first.storage), storage_name(other.storage));
  compare("views", join(first.views, ", "), join(other.views, ", "));
  if (lines.empty()) return;
  throw CacheError(concat(name, ": made with another recipe than the rest of the cache:\n  ",
                          join(lines, "\n  "),
                          "\nUse another --out, or the options of the cache."));
}

Collection::Collection(const Location& location) {
  with_listing(location, [&](const std::vector<std::filesystem::path>& files) {
    if (files.empty()) refuse_nothing(location);
    load(files);
  });
  choose_exams();
  choose_failures();
}

void Collection::load(const std::vector<std::filesystem::path>& paths) {
  files_.clear();
  open_.clear();
  views_known_ = false;
  for (const std::filesystem::path& path : paths) open_file(path);
}

void Collection::open_file(const std::filesystem::path& path) {
  auto file = std::make_unique<ShardFile>(path);
  ShardHeader header = file->contents().header;
  // A shard of failures alone may have been written before any view was known.
  const bool has_exams = !file->contents().exams.empty();
  if (!has_exams && !files_.empty()) header.views = header_.views;
  if (has_exams && !views_known_) header_.views = header.views;
  if (files_.empty()) header_ = header;
  views_known_ = views_known_ || has_exams;
  require_same_cache(header_, header, path.string());
  for (const std::string& precision : header.precisions)
    if (std::count(header_.precisions.begin(), header_.precisions.end(), precision) == 0)
      header_.precisions.push_back(precision);
  if (files_.size() >= kMostOpenFiles) {
    file->close();
  } else {
    open_.push_back(files_.size());
  }
  files_.push_back(std::move(file));
}

void Collection::choose_exams() {
  std::unordered_map<std::string, Place> best;
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const std::vector<StoredExam>& exams = files_[f]->contents().exams;
    for (std::size_t e = 0; e < exams.size(); ++e) {
      const ExamInfo& info = exams[e].info;
      const auto [entry, is_new] = best.emplace(info.id, Place{f, e});
      if (is_new) {
        latest_[info.id] = info.revision;
      } else if (info.revision > latest_[info.id]) {
        latest_[info.id] = info.revision;
        entry->second = {f, e};
      }
    }
  }
  for (const auto& [id, place] : best) places_.push_back(place);
  const auto info_at = [&](const Place& place) -> ExamInfo& {
    return files_[place.file]->contents().exams[place.exam].info;
  };
  std::sort(places_.begin(), places_.end(), [&](const Place& a, const Place& b) {
    const ExamInfo &left = info_at(a), &right = info_at(b);
    return std::tie(left.ordinal, left.id) < std::tie(right.ordinal, right.id);
  });
  in_use_.assign(files_.size(), false);
  for (const Place& place : places_) {
    ExamInfo& info = info_at(place);
    index_.emplace(info.id, exams_.size());
    exams_.push_back(std::move(info));
    info.id = exams_.back().id;  // for messages
    in_use_[place.file] = true;
  }
}

// A row holds unless a later revision of its exam, good or bad, is there.
void Collection::choose_failures() {
  for (const auto& file : files_) {
    for (const Failure& failure : file->contents().failures) {
      const auto [entry, is_new] = latest_.emplace(failure.exam, failure.revision);
      if (!is_new) entry->second = std::max(entry->second, failure.revision);
    }
  }
  for (std::size_t f = 0; f < files_.size(); ++f) {
    for (const Failure& failure : files_[f]->contents().failures) {
      if (failure.revision < latest_[failure.exam]) continue;
      failures_.push_back(failure);
      in_use_[f] = true;
    }
  }
  const auto less = [](const Failure& a, const Failure& b) { return as_tuple(a) < as_tuple(b); };
  const auto same = [](const Failure& a, const Failure& b) { return as_tuple(a) == as_tuple(b); };
  std::stable_sort(failures_.begin(), failures_.end(), less);
  failures_.erase(std::unique(failures_.begin(), failures_.end(), same), failures_.end());
}

const std::vector<std::string>& Collection::precisions_of(std::size_t exam) const {
  return files_[places_[exam].file]->contents().header.precisions;
}

const std::vector<std::uint64_t>& Collection::checksums(std::size_t exam) const {
  return files_[places_[exam].file]->contents().exams[places_[exam].exam].checksums;
}

std::size_t Collection::find(const std::string& id) const {
  const auto entry = index_.find(id);
  return entry == index_.end() ? static_cast<std::size_t>(-1) : entry->second;
}

std::uint32_t Collection::next_revision(const std::string& id) const {
  const auto entry = latest_.find(id);
  return entry == latest_.end() ? 0 : entry->second + 1;
}

void Collection::read_rows(std::size_t exam, std::size_t view, std::span<std::byte> rows) const {
  const Place place = places_[exam];
  const std::lock_guard lock(*mutex_);
  if (open_.empty() || open_.back() != place.file) {
    std::erase(open_, place.file);
    if (open_.size() >= kMostOpenFiles) {
      files_[open_.front()]->close();
      open_.erase(open_.begin());
    }
    open_.push_back(place.file);
  }
  files_[place.file]->read_rows(place.exam, view, rows);
}

std::uint64_t Collection::bytes_on_disk() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& file) { return sum + file->bytes_on_disk(); });
}

std::vector<std::filesystem::path> Collection::stale_files() const {
  std::vector<std::filesystem::path> stale;
  for (std::size_t f = 0; f < files_.size(); ++f)
    if (!in_use_[f]) stale.push_back(files_[f]->path());
  return stale;
}

}  // namespace coldframe::cache
