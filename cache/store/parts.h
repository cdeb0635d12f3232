// The parts of a job that several processes share: each leaves a record of what it is to extract
// beside the shards, so that anybody can tell from the cache alone what is done and what is
// missing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cache/format/layout.h"
#include "cache/store/reader.h"
#include "common/files/json.h"
#include "common/system/job.h"

namespace coldframe::cache {

struct PartRecord {
  std::uint32_t part = 0, parts = 1;  // counted from 0
  // The assignment of all exams of the input to parts: records that differ in it do not belong
  // together.
  std::string assignment;
  std::vector<std::string> exams;  // ids
  bool finished = false;           // its last start went through to the end
  double started = 0;              // Unix seconds by the file system's clock, of its last start
};

// Its record is replaced when the part starts again and when it has finished.
void write_part_record(const Location& location, PartRecord record);

// A division of a job into parts: the records of one assignment, by part.
using Division = std::vector<PartRecord>;
// There are several if --input, --survey or the number of parts changed in between. Nothing shows
// which of them is meant, since hosts' clocks differ. DataError: a record that is none.
std::vector<Division> read_divisions(const Location& location);
// As read_divisions(); CacheError when there is none.
std::vector<Division> require_divisions(const Location& location);

// CacheError while parts have records. Call before changing the cache as a whole.
void require_unshared(const Location& location);

// A job's parts compute alike. The first one that gets here decides, the others keep to it: returns
// what holds. DataError: the file is none.
Json agree(const Location& location, const Json& proposal);
std::optional<Json> agreement(const Location& location);  // what holds, if anything does yet

// The progress of a part.
struct PartState {
  std::uint32_t part = 0;
  bool begun = false, finished = false;
  std::size_t exams = 0;             // that it is to extract
  std::size_t done = 0, failed = 0;  // of these, by what the cache holds
  double last_shard = 0;             // Unix seconds, likewise, of its last shard or record
  bool complete() const { return finished && done + failed == exams; }
};
struct PartsReport {
  std::vector<PartState> parts;           // all of them, [N]
  std::vector<std::string> failed_exams;  // ids
  std::uint64_t frames = 0;               // of exams that are done
};
// `cache`: null while no shard is there yet.
PartsReport check_parts(const Location& location, const Division& division,
                        const CacheReader* cache);

// Unix seconds by the clock that the times of shards and records are of. Where the folder may not
// be written to, the time of its last change.
double now_there(const Location& location);

// Removes the records and the agreement: from then on nobody shares the cache.
void forget_parts(const Location& location);

}  // namespace coldframe::cache
