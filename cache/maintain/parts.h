// The parts of a job that several processes share: each leaves a record of what it is to extract
// beside the shards, so that anybody can tell from the cache alone what is done and what is
// missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/format/layout.h"
#include "cache/read/reader.h"
#include "common/files/json.h"

namespace coldframe::cache {

struct PartRecord {
  std::uint32_t part = 0, parts = 1;  // counted from 0
  double started = 0;                 // Unix seconds, of its last start
  std::string host;
  std::vector<std::string> exams;  // ids
};

// `.part-<part>-of-<parts>.json`, replaced when the part starts again.
void write_part_record(const Location& location, const PartRecord& record);
// Those of the job that started last, by part. DataError: a record that is none.
std::vector<PartRecord> read_part_records(const Location& location);

// What all parts of a job do alike, agreed on by the first one that gets here and kept by the
// others: returns what holds. `.agreement.json`.
Json agree(const Location& location, const Json& proposal);
std::optional<Json> agreement(const Location& location);  // what holds, if anything does yet

// How far a part is.
struct PartState {
  std::uint32_t part = 0;
  bool begun = false;
  std::size_t exams = 0;             // that it is to extract
  std::size_t done = 0, failed = 0;  // of these
  double last_shard = 0;             // Unix seconds of its last shard, or of its start
  bool complete() const { return begun && done + failed == exams; }
};
struct PartsReport {
  std::vector<PartState> parts;           // all of them, [N]; empty: no record is there
  std::vector<std::string> failed_exams;  // ids
  std::uint64_t frames = 0;               // of exams that are done
};
// `cache`: null while no shard is there yet.
PartsReport check_parts(const Location& location, const CacheReader* cache);

// Removes the records, the agreement and what writers that were killed left, and from then on the
// cache is one that nobody shares.
void forget_parts(const Location& location);

}  // namespace coldframe::cache
