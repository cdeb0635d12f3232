#include "cache/maintain/update_metadata.h"

#include "cache/maintain/lock.h"
#include "cache/maintain/pack.h"
#include "cache/read/collection.h"
#include "cache/write/shard_sequence.h"
#include "common/cli/error.h"
#include "common/files/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::cache {
namespace {

std::size_t index_of(const Collection& cache, const ExamInfo& info) {
  const std::size_t index = cache.find(info.id);
  if (index >= cache.exams().size())
    throw CacheError(concat("exam '", info.id,
                            "' is not in the cache, so that its metadata cannot "
                            "be updated"));
  if (cache.exams()[index].present != info.present)
    throw CacheError(concat("exam '", info.id, "': the new metadata have other frames (",
                            info.frames(), ") than the cache (", cache.exams()[index].frames(),
                            "); extract it again"));
  return index;
}

// Frames that could not be read are still missing in the new revision.
void carry_lost_frames(const Collection& cache, const ExamInfo& before, std::uint32_t revision,
                       std::uint64_t ordinal, ShardSequence& shards) {
  for (Failure failure : cache.failures()) {
    if (failure.exam != before.id || failure.revision != before.revision) continue;
    failure.revision = revision;
    failure.ordinal = ordinal;
    shards.add_failure(std::move(failure));
  }
}

void publish_revisions(const Collection& cache, const Location& location,
                       const std::vector<ExamInfo>& exams) {
  WriterOptions options;
  options.worker = kMetadataWorker;
  ShardSequence shards(location, cache.header(), options);
  const std::size_t row_bytes = cache.header().row_bytes();
  const std::size_t views = cache.header().views.size();
  std::vector<std::byte> rows;
  for (const ExamInfo& exam : exams) {
    const std::size_t index = index_of(cache, exam);
    shards.set_precisions(cache.precisions_of(index));
    ExamInfo info = exam;
    info.revision = cache.next_revision(info.id);
    carry_lost_frames(cache, cache.exams()[index], info.revision, info.ordinal, shards);
    const std::size_t view_bytes = info.frames() * row_bytes;
    rows.resize(views * view_bytes);
    std::vector<std::span<const std::byte>> stored;
    for (std::size_t view = 0; view < views; ++view) {
      const auto part = std::span(rows).subspan(view * view_bytes, view_bytes);
      cache.read_rows(index, view, part);
      stored.push_back(part);
    }
    Thumbnails thumbnails{cache.thumbnails(index).sizes, {}};
    if (cache.header().recipe.has_thumbnails()) {
      thumbnails.bytes.resize(cache.thumbnails(index).bytes());
      cache.read_thumbnails(index, thumbnails.bytes);
    }
    shards.add(std::move(info), stored, std::move(thumbnails));
  }
  shards.publish();
}

}  // namespace

void update_metadata(const Location& location, const std::vector<ExamInfo>& exams) {
  if (exams.empty()) return;
  {
    const FileLock lock(pack_lock_path(location), FileLock::IfHeld::kWait, "");
    const Collection before(location);
    for (const ExamInfo& exam : exams) index_of(before, exam);  // refuse before anything is written
    publish_revisions(before, location, exams);
    if (!location.single_file) {
      const Collection after(location);
      for (const std::filesystem::path& file : after.stale_files()) remove_file_durably(file);
    }
  }
  pack(location);
}

}  // namespace coldframe::cache
