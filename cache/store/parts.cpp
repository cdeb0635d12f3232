#include "cache/store/parts.h"

#include <sys/stat.h>
#include <algorithm>
#include <map>
#include <unordered_set>

#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe::cache {

namespace {

namespace fs = std::filesystem;

std::uint32_t number_of(const Json& json, const char* key, std::uint32_t most) {
  const std::int64_t value = json.at(key).get<std::int64_t>();
  if (value < 0 || value > most) throw DataError(concat(key, " is ", value));
  return static_cast<std::uint32_t>(value);
}

double modified(const fs::path& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 ? static_cast<double>(status.st_mtime) : 0;
}

PartRecord parse_record(const fs::path& path) {
  const Json json = read_json_file(path);
  try {
    PartRecord record{number_of(json, "part", kMaxParts - 1),
                      number_of(json, "parts", kMaxParts),
                      json.at("assignment"),
                      json.at("exams"),
                      json.at("finished"),
                      json.at("started")};
    if (record.part >= record.parts) throw DataError("it has no such part");
    if (!record.finished) record.started = modified(path);
    return record;
  } catch (const std::exception& error) {
    throw DataError(concat(path.string(), ": no record of a part (", error.what(),
                           "); remove it, and start the part again"));
  }
}

// When each worker's last shard appeared.
std::map<std::uint32_t, double> last_shards(const Location& location) {
  std::map<std::uint32_t, double> last;
  for (const fs::path& file : location.files()) {
    const auto shard = parse_shard_name(file.filename().string());
    if (!shard) continue;
    double& time = last[shard->worker];
    time = std::max(time, modified(file));
  }
  return last;
}

}  // namespace

void write_part_record(const Location& location, PartRecord record) {
  const fs::path path = part_record_path(location, record.part, record.parts);
  if (record.finished) record.started = modified(path);
  Json json;
  json["part"] = record.part;
  json["parts"] = record.parts;
  json["assignment"] = record.assignment;
  json["finished"] = record.finished;
  json["started"] = record.started;
  json["exams"] = record.exams;
  create_folders_durably(location.shard_folder());
  write_file_atomically(path, json.dump() + "\n");
}

std::vector<Division> read_divisions(const Location& location) {
  std::map<std::pair<std::uint32_t, std::string>, Division> divisions;
  for (const fs::path& path : part_record_paths(location)) {
    PartRecord record = parse_record(path);
    divisions[{record.parts, record.assignment}].push_back(std::move(record));
  }
  std::vector<Division> result;
  for (auto& [key, division] : divisions) {
    std::ranges::sort(division, {}, &PartRecord::part);
    result.push_back(std::move(division));
  }
  return result;
}

std::vector<Division> require_divisions(const Location& location) {
  std::vector<Division> divisions = read_divisions(location);
  if (divisions.empty())
    throw CacheError(concat(location.path.string(), ": no part has left a record (.part-*.json): ",
                            "it was not extracted with --part, or is finished already"));
  return divisions;
}

void require_unshared(const Location& location) {
  if (part_record_paths(location).empty()) return;
  throw CacheError(concat(location.path.string(), ": parts of a job share it (.part-*.json); run ",
                          "`coldframe cache finish` when they are complete, or with --give-up to "
                          "end the job as it is"));
}

std::optional<Json> agreement(const Location& location) {
  const fs::path path = agreement_path(location);
  std::error_code error;
  const fs::file_type type = status_of(path, error).type();
  if (type == fs::file_type::not_found) return std::nullopt;
  if (type == fs::file_type::none)
    throw SystemError(concat("cannot look for '", path.string(), "': ", error.message()));
  Json json = read_json_file(path);
  const auto is_text = [&](const char* key) { return json.contains(key) && json[key].is_string(); };
  if (!json.is_object() || !is_text("precision") || !is_text("device"))
    throw DataError(concat(path.string(),
                           ": not what parts agree on; remove it, and the next part "
                           "decides"));
  return json;
}

Json agree(const Location& location, const Json& proposal) {
  if (const auto agreed = agreement(location)) return *agreed;
  create_folders_durably(location.shard_folder());
  bool decided = false;
  with_patience(agreement_path(location), [&] {
    AtomicFile file(agreement_path(location));
    file.append(proposal.dump() + "\n");
    decided = file.finish_if_new();
  });
  if (decided) return proposal;
  if (const auto agreed = agreement(location)) return *agreed;
  throw SystemError(concat("'", agreement_path(location).string(), "' was there and is gone; run ",
                           "the same command again"));
}

PartsReport check_parts(const Location& location, const Division& division,
                        const CacheReader* cache) {
  PartsReport report;
  std::unordered_set<std::string_view> failed;
  if (cache)
    for (const Failure& failure : cache->failures()) failed.insert(failure.exam);
  const auto last = last_shards(location);
  report.parts.resize(division.front().parts);
  for (std::uint32_t part = 0; part < report.parts.size(); ++part) report.parts[part].part = part;
  for (const PartRecord& record : division) {
    PartState& state = report.parts[record.part];
    state.begun = true;
    state.finished = record.finished;
    state.exams = record.exams.size();
    const auto shard = last.find(record.part);
    state.last_shard = std::max(modified(part_record_path(location, record.part, record.parts)),
                                shard == last.end() ? 0 : shard->second);
    for (const std::string& id : record.exams) {
      const std::size_t index = cache ? cache->find(id) : CacheReader::npos;
      if (index != CacheReader::npos) {
        ++state.done;
        report.frames += cache->exams()[index].frames();
      } else if (failed.contains(id)) {
        ++state.failed;
        report.failed_exams.push_back(id);
      }
    }
  }
  return report;
}

double now_there(const Location& location) {
  try {
    const AtomicFile probe(location.shard_folder() / ".clock");  // its name changes the folder
  } catch (const SystemError&) {
  }
  return modified(location.shard_folder());
}

void forget_parts(const Location& location) {
  for (const fs::path& path : part_record_paths(location)) remove_file_durably(path);
  std::error_code error;
  fs::remove(agreement_path(location), error);
}

}  // namespace coldframe::cache
