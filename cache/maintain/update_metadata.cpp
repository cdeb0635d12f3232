#include "cache/maintain/update_metadata.h"

#include "cache/maintain/lock.h"
#include "cache/maintain/pack.h"
#include "cache/read/reader.h"
#include "cache/write/shard_sequence.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::cache {
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
