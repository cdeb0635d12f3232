#include "cache/read/shard_set.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "cache/maintain/lock.h"
#include "common/cli/error.h"
#include "common/system/open_files.h"
#include "common/text/text.h"
#include "common/threads/parallel.h"

namespace coldframe::cache {
namespace {

constexpr std::size_t kMaxOpenFiles = 64;  // of one set

auto as_tuple(const Failure& failure) {
  return std::tie(failure.ordinal, failure.exam, failure.revision, failure.source, failure.reason);
}

// For a set that begins. One file at least, whatever other sets have open.
std::size_t room_for_open_files() {
  const std::size_t most = most_kept_open(), open = OpenShard::count();
  return std::clamp<std::size_t>(most > open ? most - open : 0, 1, kMaxOpenFiles);
}

bool is_there(const std::filesystem::path& path) {
  std::error_code error;
  return std::filesystem::exists(path, error);
}

[[noreturn]] void refuse_nothing(const Location& location) {
  const std::string name = location.path.string();
  if (!is_there(location.path) && !is_there(location.shard_folder()))
    throw CacheError(name + ": there is no such cache; `coldframe extract --out` makes one");
  if (const auto writers = writers_at_work(location); !writers.empty())
    throw CacheError(concat(name, ": a job is at work (", join(writers, ", "),
                            ") and has stored no exam yet; the first ones appear after about a "
                            "minute"));
  if (std::filesystem::is_regular_file(location.path))
    throw CacheError(name + ": a cache is a file whose name ends in .h5, or a folder of shards");
  throw CacheError(name + ": a folder without shards (shard-*.h5), hence not a cache");
}

}  // namespace

void require_same_cache(const ShardHeader& first, const ShardHeader& other, const std::string& name,
                        const std::string& advice) {
  std::vector<std::string> lines = differences(first.recipe, other.recipe);
  const auto compare = [&](const char* key, const std::string& cached, const std::string& now) {
    if (cached != now) lines.push_back(difference(key, cached, now));
  };
  compare("dimension", std::to_string(first.dimension), std::to_string(other.dimension));
  compare("storage", dtype_name(first.storage), dtype_name(other.storage));
  compare("views", join(first.views, ", "), join(other.views, ", "));
  if (lines.empty()) return;
  throw CacheError(concat(name, ": made with another recipe than the rest of the cache:\n  ",
                          join(lines, "\n  "), advice));
}

ShardSet::ShardSet(const Location& location, Detail detail) {
  with_listing(location, [&](const std::vector<std::filesystem::path>& files) {
    if (files.empty()) refuse_nothing(location);
    load(files, detail);
  });
  choose_exams();
  choose_failures();
}

void ShardSet::load(const std::vector<std::filesystem::path>& paths, Detail detail) {
  files_.clear();
  files_.resize(paths.size());
  open_.clear();
  views_known_ = false;
  const std::size_t most_open = room_for_open_files();
  parallel_for(paths.size(), [&](std::size_t i) {
    files_[i] = std::make_unique<ShardFile>(paths[i], detail);
    if (i >= most_open) files_[i]->close();
  });
  for (std::size_t i = 0; i < files_.size(); ++i) {
    take_header(*files_[i], i == 0);
    if (i >= most_open) continue;
    open_.push_back({i, files_[i]->open()});
    files_[i]->close();
  }
}

void ShardSet::take_header(const ShardFile& file, bool first) {
  ShardHeader header = file.contents().header;
  // A shard of failures alone may have been written before any view was known.
  const bool has_exams = !file.contents().exams.empty();
  if (!has_exams && !first) header.views = header_.views;
  if (has_exams && !views_known_) header_.views = header.views;
  if (first) header_ = header;
  views_known_ = views_known_ || has_exams;
  require_same_cache(header_, header, file.path().string());
  for (const std::string& precision : header.precisions)
    if (std::count(header_.precisions.begin(), header_.precisions.end(), precision) == 0)
      header_.precisions.push_back(precision);
}

void ShardSet::choose_exams() {
  const auto info_at = [&](const Place& place) -> ExamInfo& {
    return files_[place.file]->contents().exams[place.exam].info;
  };
  std::size_t rows = 0;
  for (const auto& file : files_) rows += file->contents().exams.size();
  std::unordered_map<std::string_view, std::size_t> best(rows);  // into places_
  for (std::size_t f = 0; f < files_.size(); ++f) {
    const std::size_t exams = files_[f]->contents().exams.size();
    for (std::size_t e = 0; e < exams; ++e) {
      const ExamInfo& info = info_at({f, e});
      const auto [entry, is_new] = best.emplace(info.id, places_.size());
      if (is_new) {
        places_.push_back({f, e});
      } else if (Place& place = places_[entry->second]; info.revision > info_at(place).revision) {
        place = {f, e};
      }
    }
  }
  best = decltype(best)();  // its keys are texts that move now
  std::sort(places_.begin(), places_.end(), [&](const Place& a, const Place& b) {
    const ExamInfo &left = info_at(a), &right = info_at(b);
    return std::tie(left.ordinal, left.id) < std::tie(right.ordinal, right.id);
  });
  in_use_.assign(files_.size(), false);
  exams_.reserve(places_.size());
  stored_.reserve(places_.size());
  index_.reserve(places_.size());
  for (const Place& place : places_) {
    StoredExam& exam = files_[place.file]->contents().exams[place.exam];
    stored_.push_back({std::move(exam.checksums), std::move(exam.thumbnails)});
    exams_.push_back(std::move(exam.info));
    exam.info.id = exams_.back().id;
    index_.emplace(exam.info.id, index_.size());
    in_use_[place.file] = true;
  }
}

// A failure is superseded by any later revision of its exam, good or bad.
void ShardSet::choose_failures() {
  for (const auto& file : files_) {
    for (const Failure& failure : file->contents().failures) {
      if (failure.exam.empty()) continue;
      std::uint32_t& latest = failed_.emplace(failure.exam, failure.revision).first->second;
      latest = std::max(latest, failure.revision);
    }
  }
  for (std::size_t f = 0; f < files_.size(); ++f) {
    for (const Failure& failure : files_[f]->contents().failures) {
      if (failure.exam.empty()) {
        places_taken_out_.insert(failure.ordinal);
        in_use_[f] = true;
        continue;
      }
      const std::size_t exam = find(failure.exam);
      const bool of_frames = exam < exams_.size() && is_of_frames(failure, exams_[exam]);
      if (!of_frames && failure.revision + std::uint64_t{1} < next_revision(failure.exam)) continue;
      failures_.push_back(failure);
      in_use_[f] = true;
    }
  }
  const auto less = [](const Failure& a, const Failure& b) { return as_tuple(a) < as_tuple(b); };
  const auto same = [](const Failure& a, const Failure& b) { return as_tuple(a) == as_tuple(b); };
  std::stable_sort(failures_.begin(), failures_.end(), less);
  failures_.erase(std::unique(failures_.begin(), failures_.end(), same), failures_.end());
}

const std::vector<std::string>& ShardSet::precisions_of(std::size_t exam) const {
  return files_[places_[exam].file]->contents().header.precisions;
}

const std::filesystem::path& ShardSet::path_of(std::size_t exam) const {
  return files_[places_[exam].file]->path();
}

void ShardSet::forget_superseded() {
  for (const auto& file : files_) file->forget_exams();
}

std::size_t ShardSet::find(const std::string& id) const {
  const auto entry = index_.find(id);
  return entry == index_.end() ? static_cast<std::size_t>(-1) : entry->second;
}

std::uint32_t ShardSet::next_revision(const std::string& id) const {
  const std::size_t index = find(id);
  const auto failure = failed_.find(id);
  std::uint32_t next = index < exams_.size() ? exams_[index].revision + 1 : 0;
  if (failure != failed_.end()) next = std::max(next, failure->second + 1);
  return next;
}

void ShardSet::read_rows(std::size_t exam, std::size_t array, std::span<std::byte> rows) const {
  read_run(std::span(&exam, 1), array, rows);
}

std::size_t ShardSet::run_length(std::span<const std::size_t> exams, std::size_t array,
                                 std::size_t most_bytes) const {
  const Place first = places_[exams.front()];
  std::size_t bytes = 0, length = 0;
  for (; length < exams.size(); ++length) {
    const Place& place = places_[exams[length]];
    bytes += exams_[exams[length]].frames() * header_.row_bytes(array);
    if (place.file != first.file || place.exam != first.exam + length) break;
    if (length > 0 && bytes > most_bytes) break;
  }
  return length;
}

std::shared_ptr<const OpenShard> ShardSet::keep_open(std::size_t file,
                                                     std::shared_ptr<const OpenShard> fresh) const {
  const std::lock_guard lock(*mutex_);
  const auto known = std::ranges::find(open_, file, &OpenFile::first);
  if (known != open_.end()) {
    std::rotate(known, known + 1, open_.end());
  } else if (fresh) {
    // `fresh` is open already, and counted. Each set gives up files of its own alone.
    while (!open_.empty() &&
           (open_.size() >= kMaxOpenFiles || OpenShard::count() > most_kept_open()))
      open_.erase(open_.begin());
    open_.push_back({file, std::move(fresh)});
  } else {
    return nullptr;
  }
  return open_.back().second;
}

std::shared_ptr<const OpenShard> ShardSet::open_file(std::size_t file) const {
  if (auto known = keep_open(file, nullptr)) return known;
  return keep_open(file, files_[file]->open());
}

void ShardSet::read_thumbnails(std::size_t exam, std::span<std::byte> bytes) const {
  const Place& place = places_[exam];
  const ShardFile& file = *files_[place.file];
  file.read_thumbnails(*open_file(place.file), place.exam, bytes);
  file.check_thumbnails(exams_[exam].id, stored_[exam].thumbnails.checksum, bytes);
}

void ShardSet::read_run(std::span<const std::size_t> run, std::size_t array,
                        std::span<std::byte> rows) const {
  const Place first = places_[run.front()];
  const ShardFile& file = *files_[first.file];
  file.read_run(*open_file(first.file), first.exam, run.size(), array, rows);
  for (const std::size_t exam : run) {
    const std::size_t bytes = exams_[exam].frames() * header_.row_bytes(array);
    file.check_rows(exams_[exam].id, array, stored_[exam].checksums[array], rows.first(bytes));
    rows = rows.subspan(bytes);
  }
}

std::uint64_t ShardSet::bytes_on_disk() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& file) { return sum + file->bytes_on_disk(); });
}

std::uint64_t ShardSet::bytes_read() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& file) { return sum + file->bytes_read(); });
}

std::vector<std::filesystem::path> ShardSet::stale_files() const {
  std::vector<std::filesystem::path> stale;
  for (std::size_t f = 0; f < files_.size(); ++f)
    if (!in_use_[f]) stale.push_back(files_[f]->path());
  return stale;
}

}  // namespace coldframe::cache
