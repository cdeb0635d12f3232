// Writes exams into shards. A shard is built in memory and appears whole, as an AtomicFile, and
// never in another's place; an exam counts as written only once its shard is there: `on_published`
// says so.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cache/format/exam.h"
#include "cache/format/layout.h"
#include "cache/format/recipe.h"
#include "common/files/file_lock.h"

namespace coldframe::cache {

struct WriterOptions {
  DType storage = DType::kFp16;
  std::string precision = "fp32";  // in which the backbone computed; recorded per shard
  std::uint32_t worker = 0;
  // Other writers may be at work, on other machines too, and one of the same worker that is thought
  // dead: nothing is locked then, and exams that come twice do no harm.
  bool shared = false;
  // Approximate; held twice in memory, thumbnails a third time. 0: 8 MiB, with a cut 64 MiB.
  std::uint64_t max_shard_bytes = 0;
  std::uint32_t max_shard_exams = 4096;
  double max_shard_seconds = 60.0;  // a killed job loses at most this much work
};

class ShardWriter {
 public:
  // Takes the lock of (output, worker), unless it is shared or its caller holds it and outlives
  // this: CacheError when another process holds it. Creates the folder.
  ShardWriter(const Location& location, const Recipe& recipe, std::int64_t dimension,
              WriterOptions options, const FileLock* held = nullptr);
  ~ShardWriter();  // abandons the unfinished shard and releases its lock; never throws

  // DataError when a value lies beyond float16's range (names exam and frame, and --store float32),
  // or when a present frame's features or cut are not finite; when thumbnails are not just those of
  // the frames that are present although the recipe has them (or any although it has not), or
  // likewise the cut. Publishes the shard when it is full or old.
  void add(ExamFeatures exam);
  void add_failure(const Failure& failure);

  // Publishes what is left, without packing: what an interrupted job does.
  void publish();

  // Publishes what is left. For a single-file cache, packs everything into the one file and removes
  // the shards.
  void finish();

  // Called with the number of exams that a published shard holds.
  std::function<void(std::size_t exams)> on_published;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace coldframe::cache
