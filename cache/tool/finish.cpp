#include <algorithm>
#include <optional>

#include "cache/store/lock.h"
#include "cache/store/parts.h"
#include "cache/tool/command.h"
#include "cache/tool/merge.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

// "3,17,20-24", as `sbatch --array` takes it.
std::string array_text(const std::vector<std::uint32_t>& parts) {
  std::vector<std::string> ranges;
  for (std::size_t i = 0, end = 0; i < parts.size(); i = end) {
    for (end = i + 1; end < parts.size() && parts[end] == parts[end - 1] + 1;) ++end;
    ranges.push_back(end - i == 1 ? concat(parts[i]) : concat(parts[i], "-", parts[end - 1]));
  }
  return join(ranges, ",");
}

std::vector<std::uint32_t> incomplete(const PartsReport& report) {
  std::vector<std::uint32_t> parts;
  for (const PartState& state : report.parts)
    if (!state.complete()) parts.push_back(state.part);
  return parts;
}

bool all_complete(const std::vector<PartsReport>& divisions) {
  return std::ranges::all_of(divisions,
                             [](const PartsReport& report) { return incomplete(report).empty(); });
}

struct Counts {
  std::size_t done = 0, missing = 0;  // exams
};

Counts count(const PartsReport& report) {
  Counts counts;
  for (const PartState& state : report.parts) {
    counts.done += state.done;
    counts.missing += state.exams - state.done - state.failed;
  }
  return counts;
}

Json to_json(const PartsReport& report) {
  const Counts counts = count(report);
  return {{"parts", report.parts.size()},
          {"incomplete", incomplete(report)},
          {"exams", counts.done},
          {"missing", counts.missing},
          {"failed", report.failed_exams}};
}

// Of a job that was divided once, as nearly all are, its one division.
Json to_json(const std::string& path, const std::vector<PartsReport>& divisions) {
  Json json = divisions.size() == 1 ? to_json(divisions[0]) : Json::object();
  json["path"] = path;
  for (std::size_t i = 0; divisions.size() > 1 && i < divisions.size(); ++i)
    json["divisions"].push_back(to_json(divisions[i]));
  return json;
}

// "--part 3/64" of all that are to be run again.
std::string advice(const std::vector<std::uint32_t>& parts, std::size_t count) {
  return concat(
      "run them again with the same --input and --survey: in a SLURM array "
      "COLDFRAME_PARTS=",
      count, " sbatch --array=", array_text(parts), " …, elsewhere --part ", parts.front(), "/",
      count, parts.size() > 1 ? " and so on" : "");
}

void tell_incomplete(const PartsReport& report) {
  const auto parts = incomplete(report);
  if (parts.empty()) return;
  log_warning(concat(plural(parts.size(), "part"), " of ", report.parts.size(),
                     parts.size() == 1 ? " is" : " are", " incomplete or not begun (",
                     plural(count(report).missing, "exam"), " missing of those that began); ",
                     advice(parts, report.parts.size())));
}

// ".part-0-of-2.json, .part-1-of-2.json and 12 more"
std::string records_of(const Location& location, const PartsReport& report) {
  constexpr std::size_t kShown = 4;
  std::vector<std::string> names;
  for (const PartState& state : report.parts) {
    if (!state.begun) continue;
    const auto count = static_cast<std::uint32_t>(report.parts.size());
    names.push_back(part_record_path(location, state.part, count).filename().string());
  }
  const std::size_t more = names.size() - std::min(names.size(), kShown);
  names.resize(names.size() - more);
  return concat(join(names, ", "), more > 0 ? concat(" and ", more, " more") : "");
}

void tell_incomplete(const Location& location, const std::vector<PartsReport>& divisions) {
  for (const PartsReport& report : divisions) tell_incomplete(report);
  if (divisions.size() < 2) return;
  std::vector<std::string> records;
  for (const PartsReport& report : divisions) records.push_back(records_of(location, report));
  log_warning(concat("the job was divided in ", divisions.size(),
                     " ways, with another --input, --survey or number of parts (their records: ",
                     join(records, "; "),
                     "), and all of them have to be complete; where one was "
                     "given up, remove its records from ",
                     location.shard_folder().string()));
}

std::vector<PartsReport> look_at(const Location& location) {
  std::optional<CacheReader> cache;
  const std::vector<Division> divisions = require_divisions(location);
  if (!location.files().empty()) cache.emplace(location.path, Detail::kWithoutSources);
  std::vector<PartsReport> reports;
  for (const Division& division : divisions)
    reports.push_back(check_parts(location, division, cache ? &*cache : nullptr));
  return reports;
}

// Null: a part that was thought dead lives on, beside others that are complete.
WriterLock lock_for_end(const Location& location, bool complete) {
  try {
    return lock_where_possible(location);
  } catch (const CacheError&) {
    if (!complete) throw;
    return nullptr;
  }
}

int run_finish(const Verb& verb, const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::string pack;
  bool give_up = false;
  po::options_description more;
  more.add_options()("pack", po::value(&pack)->value_name("FILE.h5"),
                     "also write the whole cache as this one file")(
      "give-up", po::bool_switch(&give_up),
      "end the job though parts are incomplete; no part may be at work");
  if (!parse_verb(verb, arguments, options, more)) return 0;
  const Location location = locate(options.path());
  std::vector<PartsReport> divisions = look_at(location);
  WriterLock lock;
  if (all_complete(divisions) || give_up) {
    lock = lock_for_end(location, all_complete(divisions));
    divisions = look_at(location);  // nobody changes it any more
  }
  const bool whole = all_complete(divisions);
  if (options.json) print_json(to_json(options.path(), divisions));
  if (!whole) tell_incomplete(location, divisions);
  if (!whole && !give_up) return static_cast<int>(ExitCode::kDoneWithFindings);
  if (!pack.empty()) merge_caches(locate(pack), {options.path()});
  forget_parts(location);
  if (lock) remove_abandoned_shards(location);
  bool failures = false;
  for (const PartsReport& report : divisions) {
    failures |= !report.failed_exams.empty();
    log_info(concat(options.path(), ": ",
                    whole ? concat("all ", plural(report.parts.size(), "part"), " are complete")
                          : "the job has ended",
                    ", ", plural(count(report).done, "exam"), ", ",
                    plural(report.failed_exams.size(), "failure"),
                    pack.empty() ? "" : concat("; packed into ", pack)));
  }
  return static_cast<int>(whole && !failures ? ExitCode::kDone : ExitCode::kDoneWithFindings);
}

}  // namespace

extern const Verb kFinishCommand;
const Verb kFinishCommand{
    &kCache,
    "finish",
    "PATH",
    "x.cache --pack x.h5",
    "after `extract --part`: is every part complete, and which are to be run again",
    run_finish};

}  // namespace coldframe::cache::tool
