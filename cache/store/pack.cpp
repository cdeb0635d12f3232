#include "cache/store/pack.h"

#include "cache/format/shard.h"
#include "cache/store/lock.h"
#include "cache/store/reader.h"
#include "cache/store/shard_sequence.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

namespace fs = std::filesystem;

ShardContents valid_contents(const CacheReader& cache) {
  ShardContents contents;
  contents.header = cache.header();
  contents.failures = cache.failures();
  for (const std::uint64_t ordinal : cache.deleted_ordinals())
    contents.failures.push_back(tombstone(ordinal));
  for (std::size_t i = 0; i < cache.exams().size(); ++i)
    contents.exams.push_back({cache.exams()[i], cache.checksums(i), cache.stored_thumbnails(i)});
  return contents;
}

void pack_locked(const Location& location) {
  const std::vector<fs::path> files = location.files();
  if (files.empty() || files == std::vector{location.path}) return;
  const bool had_file = files.front() == location.path;  // it comes first; what came since stays
  {
    const CacheReader cache(location);
    const ShardContents contents = valid_contents(cache);
    const auto read_rows = [&](std::size_t exam, std::size_t array, std::span<std::byte> rows) {
      cache.read_rows(exam, array, rows);
    };
    const auto read_thumbnails = [&](std::size_t exam, std::span<std::byte> bytes) {
      cache.read_thumbnails(exam, bytes);
    };
    publish_large(location.path, contents, exam_by_exam(contents, read_rows, read_thumbnails),
                  as_named(existing_for(had_file)));
  }
  for (const fs::path& file : files)
    if (file != location.path) remove_file_durably(file);
}

}  // namespace

void pack(const Location& location) {
  if (!location.single_file) return;
  const WriterLock lock = lock_packer(location);
  pack_locked(location);
}

namespace {

std::size_t index_of(const CacheReader& cache, const ExamInfo& info) {
  const std::size_t index = cache.find(info.id);
  if (index >= cache.exams().size())
    throw CacheError(
        concat("exam '", info.id, "' is not in the cache, so that its metadata cannot be updated"));
  if (cache.exams()[index].present != info.present)
    throw CacheError(concat("exam '", info.id, "': the new metadata have other frames (",
                            info.frames(), ") than the cache (", cache.exams()[index].frames(),
                            "); extract it again"));
  return index;
}

// Frames that could not be read are still missing in the new revision.
void carry_lost_frames(const CacheReader& cache, const ExamInfo& before, const ExamInfo& now,
                       ShardSequence& shards) {
  for (Failure failure : cache.failures()) {
    if (!is_of_frames(failure, before)) continue;
    failure.revision = now.revision;
    failure.ordinal = now.ordinal;
    shards.add_failure(std::move(failure));
  }
}

// The features that exam `index` has, with `info`.
void copy_exam(const CacheReader& cache, std::size_t index, ExamInfo info, ShardSequence& shards) {
  shards.set_precisions(cache.precisions_of(index));
  Thumbnails thumbnails{cache.stored_thumbnails(index).sizes, {}};
  if (cache.header().recipe.has_thumbnails()) {
    thumbnails.bytes.resize(cache.stored_thumbnails(index).bytes());
    cache.read_thumbnails(index, thumbnails.bytes);
  }
  const auto fill = [&](std::size_t array, std::span<std::byte> rows) {
    cache.read_rows(index, array, rows);
  };
  shards.add(std::move(info), fill, std::move(thumbnails));
}

void publish_revisions(const CacheReader& cache, const Location& location,
                       const std::vector<ExamInfo>& exams) {
  WriterOptions options;
  options.worker = kMetadataWorker;
  ShardSequence shards(location, cache.header(), options);
  for (ExamInfo info : exams) {
    info.revision = cache.next_revision(info.id);
    const std::size_t index = index_of(cache, info);
    carry_lost_frames(cache, cache.exams()[index], info, shards);
    copy_exam(cache, index, std::move(info), shards);
  }
  shards.publish();
}

void remove_stale_files(const Location& location) {
  if (location.single_file) return;
  const CacheReader after(location);
  for (const std::filesystem::path& file : after.stale_files()) remove_file_durably(file);
}

}  // namespace

void update_metadata(const Location& location, const std::vector<ExamInfo>& exams) {
  if (exams.empty()) return;
  {
    const WriterLock lock = lock_packer(location);
    {
      const CacheReader before(location);
      for (const ExamInfo& exam : exams)
        index_of(before, exam);  // refuse before anything is written
      publish_revisions(before, location, exams);
    }
    remove_stale_files(location);
  }
  pack(location);
}

}  // namespace coldframe::cache
