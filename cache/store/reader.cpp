#include "cache/store/reader.h"

#include <algorithm>
#include <numeric>
#include <thread>
#include <tuple>

#include "cache/store/lock.h"
#include "cache/store/shard_file.h"
#include "common/cli/error.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/threads/bounded_queue.h"
#include "common/threads/threads.h"

namespace coldframe::cache {

namespace {

constexpr std::size_t kMaxOpenFiles = 64;  // of one reader
constexpr std::size_t kScanBytes = 2u << 20, kRunsAhead = 4;

auto as_tuple(const Failure& failure) {
  return std::tie(failure.ordinal, failure.exam, failure.revision, failure.source, failure.reason);
}

// For a reader that begins. One file at least, whatever other readers have open.
std::size_t room_for_open_files() {
  const std::size_t most = max_kept_open(), open = OpenShard::count();
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

CacheReader::CacheReader(const Location& location, Detail detail) {
  with_listing(location, [&](const std::vector<std::filesystem::path>& files) {
    if (files.empty()) refuse_nothing(location);
    load(files, detail);
  });
  choose_exams();
  choose_failures();
  for (const auto& file : files_) file->forget_exams();
}
CacheReader::~CacheReader() = default;
CacheReader::CacheReader(CacheReader&&) noexcept = default;
CacheReader& CacheReader::operator=(CacheReader&&) noexcept = default;

void CacheReader::load(const std::vector<std::filesystem::path>& paths, Detail detail) {
  files_.clear();
  files_.resize(paths.size());
  open_.clear();
  views_known_ = false;
  const std::size_t max_open = room_for_open_files();
  parallel_for(paths.size(), [&](std::size_t i) {
    files_[i] = std::make_unique<ShardFile>(paths[i], detail);
    if (i >= max_open) files_[i]->close();
  });
  for (std::size_t i = 0; i < files_.size(); ++i) {
    take_header(*files_[i], i == 0);
    if (i >= max_open) continue;
    open_.push_back({i, files_[i]->open()});
    files_[i]->close();
  }
}

void CacheReader::take_header(const ShardFile& file, bool first) {
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

void CacheReader::choose_exams() {
  const auto info_at = [&](const ExamLocation& place) -> ExamInfo& {
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
      } else if (ExamLocation& place = places_[entry->second];
                 info.revision > info_at(place).revision) {
        place = {f, e};
      }
    }
  }
  best = decltype(best)();  // its keys are texts that move now
  std::sort(places_.begin(), places_.end(), [&](const ExamLocation& a, const ExamLocation& b) {
    const ExamInfo &left = info_at(a), &right = info_at(b);
    return std::tie(left.ordinal, left.id) < std::tie(right.ordinal, right.id);
  });
  in_use_.assign(files_.size(), false);
  exams_.reserve(places_.size());
  stored_.reserve(places_.size());
  index_.reserve(places_.size());
  for (const ExamLocation& place : places_) {
    StoredExam& exam = files_[place.file]->contents().exams[place.exam];
    stored_.push_back({std::move(exam.checksums), std::move(exam.thumbnails)});
    exams_.push_back(std::move(exam.info));
    exam.info.id = exams_.back().id;
    index_.emplace(exam.info.id, index_.size());
    in_use_[place.file] = true;
  }
}

// A failure is superseded by any later revision of its exam, good or bad.
void CacheReader::choose_failures() {
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
        deleted_ordinals_.insert(failure.ordinal);
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

const std::vector<std::string>& CacheReader::precisions_of(std::size_t exam) const {
  return files_[places_[exam].file]->contents().header.precisions;
}

const std::filesystem::path& CacheReader::path_of(std::size_t exam) const {
  return files_[places_[exam].file]->path();
}

std::size_t CacheReader::find(const std::string& id) const {
  const auto entry = index_.find(id);
  return entry == index_.end() ? npos : entry->second;
}

std::uint32_t CacheReader::next_revision(const std::string& id) const {
  const std::size_t index = find(id);
  const auto failure = failed_.find(id);
  std::uint32_t next = index < exams_.size() ? exams_[index].revision + 1 : 0;
  if (failure != failed_.end()) next = std::max(next, failure->second + 1);
  return next;
}

void CacheReader::read_rows(std::size_t exam, std::size_t array, std::span<std::byte> rows) const {
  read_contiguous(std::span(&exam, 1), array, rows);
}

std::shared_ptr<const OpenShard> CacheReader::keep_open(
    std::size_t file, std::shared_ptr<const OpenShard> fresh) const {
  const std::lock_guard lock(*mutex_);
  const auto known = std::ranges::find(open_, file, &OpenFile::first);
  if (known != open_.end()) {
    std::rotate(known, known + 1, open_.end());
  } else if (fresh) {
    // `fresh` is open already, and counted. Each reader gives up files of its own alone.
    while (!open_.empty() &&
           (open_.size() >= kMaxOpenFiles || OpenShard::count() > max_kept_open()))
      open_.erase(open_.begin());
    open_.push_back({file, std::move(fresh)});
  } else {
    return nullptr;
  }
  return open_.back().second;
}

std::shared_ptr<const OpenShard> CacheReader::open_file(std::size_t file) const {
  if (auto known = keep_open(file, nullptr)) return known;
  return keep_open(file, files_[file]->open());
}

void CacheReader::read_thumbnails(std::size_t exam, std::span<std::byte> bytes) const {
  const ExamLocation& place = places_[exam];
  const ShardFile& file = *files_[place.file];
  file.read_thumbnails(*open_file(place.file), place.exam, bytes);
  file.check_thumbnails(exams_[exam].id, stored_[exam].thumbnails.checksum, bytes);
}

void CacheReader::read_contiguous(std::span<const std::size_t> run, std::size_t array,
                                  std::span<std::byte> rows) const {
  const ExamLocation first = places_[run.front()];
  const ShardFile& file = *files_[first.file];
  file.read_run(*open_file(first.file), first.exam, run.size(), array, rows);
  for (const std::size_t exam : run) {
    const std::size_t bytes = exams_[exam].frames() * header_.row_bytes(array);
    file.check_rows(exams_[exam].id, array, stored_[exam].checksums[array], rows.first(bytes));
    rows = rows.subspan(bytes);
  }
}

// As many as lie next to each other in one file, of at most kScanBytes together; at least one.
CacheReader::ContiguousExams CacheReader::read_contiguous(std::span<const std::size_t> exams,
                                                          std::size_t array) const {
  const ExamLocation first = places_[exams.front()];
  std::size_t bytes = 0, length = 0;
  for (; length < exams.size(); ++length) {
    const ExamLocation& place = places_[exams[length]];
    if (place.file != first.file || place.exam != first.exam + length) break;
    const std::size_t own = exams_[exams[length]].frames() * header_.row_bytes(array);
    if (length > 0 && bytes + own > kScanBytes) break;
    bytes += own;
  }
  ContiguousExams run{exams.first(length), std::vector<std::byte>(bytes)};
  read_contiguous(run.exams, array, run.rows);
  return run;
}

// Another thread reads ahead.
void CacheReader::scan_array(std::size_t array, std::span<const std::size_t> exams,
                             const VisitStored& body) const {
  BoundedQueue<ContiguousExams> queue(kRunsAhead);
  const std::jthread ahead = start_thread([&, left = exams]() mutable {
    try {
      while (!left.empty()) {
        ContiguousExams run = read_contiguous(left, array);
        left = left.subspan(run.exams.size());
        if (!queue.push(std::move(run))) return;
      }
      queue.close();
    } catch (...) {
      queue.fail(std::current_exception());
    }
  });
  try {
    while (const std::optional<ContiguousExams> run = queue.pop()) {
      std::span<const std::byte> rows(run->rows);
      for (const std::size_t exam : run->exams) {
        const std::size_t bytes = exams_[exam].frames() * header_.row_bytes(array);
        body(exam, rows.first(bytes));
        rows = rows.subspan(bytes);
      }
    }
  } catch (...) {
    queue.close();
    throw;
  }
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
  return header_.cut_of(view);
}

std::vector<float> CacheReader::features(std::size_t exam, const std::string& view) const {
  std::vector<float> values(exams().at(exam).frames() * static_cast<std::size_t>(dimension()));
  std::vector<std::byte> rows(values.size() * bytes_of(storage()));
  read_rows(exam, view_index(view), rows);
  convert(rows, storage(), std::span(values));
  return values;
}

void CacheReader::scan_stored(const std::string& view, std::span<const std::size_t> exams,
                              const VisitStored& body) const {
  scan_array(view_index(view), exams, body);
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

void CacheReader::read_cut(std::size_t exam, std::size_t view, std::span<std::byte> rows) const {
  const std::size_t array = cut_array(view);
  const std::size_t expected = exams().at(exam).frames() * cut()->row_bytes();
  if (rows.size() != expected)
    throw CacheError(concat("the cut of exam '", exams()[exam].id, "' has ", expected,
                            " bytes, but room for ", rows.size(), " was given"));
  read_rows(exam, array, rows);
}

void CacheReader::scan_cut(std::size_t view, std::span<const std::size_t> exams,
                           const VisitStored& body) const {
  scan_array(cut_array(view), exams, body);
}

std::uint64_t CacheReader::thumbnail_bytes() const {
  std::uint64_t bytes = 0;
  for (const Stored& stored : stored_) bytes += stored.thumbnails.bytes();
  return bytes;
}

std::vector<std::string> CacheReader::thumbnails(std::size_t exam) const {
  if (!recipe().has_thumbnails()) return {};
  const StoredThumbnails& stored = stored_thumbnails(exam);
  std::string bytes(stored.bytes(), '\0');
  read_thumbnails(exam, std::as_writable_bytes(std::span(bytes)));
  std::vector<std::string> files;
  std::size_t at = 0;
  for (const std::uint64_t size : stored.sizes) {
    files.push_back(bytes.substr(at, size));
    at += size;
  }
  return files;
}

std::uint64_t CacheReader::bytes_on_disk() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& file) { return sum + file->bytes_on_disk(); });
}

std::uint64_t CacheReader::bytes_read() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::uint64_t{0},
      [](std::uint64_t sum, const auto& file) { return sum + file->bytes_read(); });
}

std::vector<std::filesystem::path> CacheReader::stale_files() const {
  std::vector<std::filesystem::path> stale;
  for (std::size_t f = 0; f < files_.size(); ++f)
    if (!in_use_[f]) stale.push_back(files_[f]->path());
  return stale;
}

}  // namespace coldframe::cache
