#include "cache/maintain/update_metadata.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "cache/maintain/lock.h"
#include "cache/maintain/pack.h"
#include "cache/read/shard_set.h"
#include "cache/write/shard_sequence.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

std::size_t index_of(const ShardSet& cache, const std::string& id, const ExamInfo& info) {
  const std::size_t index = cache.find(id);
  if (index >= cache.exams().size())
    throw CacheError(
        concat("exam '", id, "' is not in the cache, so that its metadata cannot be updated"));
  if (cache.exams()[index].present != info.present)
    throw CacheError(concat("exam '", id, "': the new metadata have other frames (", info.frames(),
                            ") than the cache (", cache.exams()[index].frames(),
                            "); extract it again"));
  return index;
}

// Frames that could not be read are still missing in the new revision.
void carry_lost_frames(const ShardSet& cache, const ExamInfo& before, const ExamInfo& now,
                       ShardSequence& shards) {
  for (Failure failure : cache.failures()) {
    if (!is_of_frames(failure, before)) continue;
    failure.exam = now.id;
    failure.revision = now.revision;
    failure.ordinal = now.ordinal;
    shards.add_failure(std::move(failure));
  }
}

ShardSequence metadata_shards(const ShardSet& cache, const Location& location) {
  WriterOptions options;
  options.worker = kMetadataWorker;
  return ShardSequence(location, cache.header(), options);
}

// The features that exam `index` has, with `info`.
void copy_exam(const ShardSet& cache, std::size_t index, ExamInfo info, ShardSequence& shards) {
  shards.set_precisions(cache.precisions_of(index));
  Thumbnails thumbnails{cache.thumbnails(index).sizes, {}};
  if (cache.header().recipe.has_thumbnails()) {
    thumbnails.bytes.resize(cache.thumbnails(index).bytes());
    cache.read_thumbnails(index, thumbnails.bytes);
  }
  const auto fill = [&](std::size_t array, std::span<std::byte> rows) {
    cache.read_rows(index, array, rows);
  };
  shards.add(std::move(info), fill, std::move(thumbnails));
}

void publish_revisions(const ShardSet& cache, const Location& location,
                       const std::vector<RenamedExam>& exams) {
  ShardSequence shards = metadata_shards(cache, location);
  for (const auto& [from, now] : exams) {
    ExamInfo info = now;
    info.revision = cache.next_revision(now.id);
    const std::size_t index = index_of(cache, from, now);
    carry_lost_frames(cache, cache.exams()[index], info, shards);
    copy_exam(cache, index, std::move(info), shards);
  }
  shards.publish();
}

void remove_stale_files(const Location& location) {
  if (location.single_file || location.files().empty()) return;
  const ShardSet after(location);
  for (const std::filesystem::path& file : after.stale_files()) remove_file_durably(file);
}

using Ids = std::unordered_set<std::string_view>;

bool holds_any(const ShardFile& file, const Ids& ids) {
  const auto& exams = file.contents().exams;
  const auto& failures = file.contents().failures;
  return std::any_of(exams.begin(), exams.end(),
                     [&](const auto& exam) { return ids.contains(exam.info.id); }) ||
         std::any_of(failures.begin(), failures.end(),
                     [&](const Failure& failure) { return ids.contains(failure.exam); });
}

std::uint32_t latest_revision(const ShardFile& file, const Ids& ids) {
  std::uint32_t latest = 0;
  for (const auto& exam : file.contents().exams)
    if (ids.contains(exam.info.id)) latest = std::max(latest, exam.info.revision);
  return latest;
}

// Earlier revisions and failures go as well, lest they hold again; what stays keeps its revision.
void remove_exams(const Location& location, const std::vector<std::string>& removed) {
  if (removed.empty()) return;
  const Ids ids(removed.begin(), removed.end());
  std::vector<std::pair<std::uint32_t, std::filesystem::path>>
      files;  // with latest revision removed
  {
    const ShardSet cache(location);
    Ids exams, failures;
    for (const auto& file : cache.files()) {
      if (!holds_any(*file, ids)) continue;
      files.emplace_back(latest_revision(*file, ids), file->path());
      for (const auto& exam : file->contents().exams) exams.insert(exam.info.id);
      for (const Failure& failure : file->contents().failures) failures.insert(failure.exam);
    }
    ShardSequence shards = metadata_shards(cache, location);
    for (std::size_t i = 0; i < cache.exams().size(); ++i) {
      const ExamInfo& info = cache.exams()[i];
      if (exams.contains(info.id) && !ids.contains(info.id)) copy_exam(cache, i, info, shards);
    }
    for (const Failure& failure : cache.failures())
      if (failures.contains(failure.exam) && !ids.contains(failure.exam))
        shards.add_failure(failure);
    for (const std::uint64_t place : cache.places_taken_out()) shards.add_failure(taken_out(place));
    shards.publish();
  }
  // Earlier revisions go first, so that none of them holds again where this is killed.
  std::stable_sort(files.begin(), files.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (const auto& [revision, file] : files) remove_file_durably(file);
}

}  // namespace

void update_metadata(const Location& location, const std::vector<ExamInfo>& exams) {
  std::vector<RenamedExam> same;
  for (const ExamInfo& exam : exams) same.push_back({exam.id, exam});
  rename_exams(location, same, {});
}

void rename_exams(const Location& location, const std::vector<RenamedExam>& renamed,
                  const std::vector<std::string>& removed) {
  if (renamed.empty() && removed.empty()) return;
  {
    const WriterLock lock = lock_packer(location);
    {
      const ShardSet before(location);
      // refuse before anything is written
      for (const auto& [from, now] : renamed) index_of(before, from, now);
      publish_revisions(before, location, renamed);
    }
    remove_exams(location, removed);
    remove_stale_files(location);
  }
  if (!location.files().empty()) pack(location);
}

}  // namespace coldframe::cache
