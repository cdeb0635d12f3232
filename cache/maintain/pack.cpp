#include "cache/maintain/pack.h"

#include "cache/format/shard/shard_image.h"
#include "cache/maintain/lock.h"
#include "cache/read/reader.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/publish/outputs.h"

namespace coldframe::cache {
namespace {

namespace fs = std::filesystem;

ShardContents valid_contents(const CacheReader& cache) {
  ShardContents contents;
  contents.header = cache.header();
  contents.failures = cache.failures();
  for (const std::uint64_t ordinal : cache.ordinals_taken_out())
    contents.failures.push_back(taken_out(ordinal));
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

}  // namespace coldframe::cache
