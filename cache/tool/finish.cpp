#include <optional>

#include "cache/maintain/lock.h"
#include "cache/maintain/merge.h"
#include "cache/maintain/parts.h"
#include "cache/tool/command.h"
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

Json to_json(const std::string& path, const PartsReport& report) {
  Json incomplete_parts = Json::array();
  std::size_t done = 0, missing = 0;
  for (const PartState& state : report.parts) {
    done += state.done;
    missing += state.exams - state.done - state.failed;
    if (!state.complete()) incomplete_parts.push_back(state.part);
  }
  return {{"path", path},  {"parts", report.parts.size()}, {"incomplete", incomplete_parts},
          {"exams", done}, {"missing", missing},           {"failed", report.failed_exams}};
}

// "--part 3/64" of all that are to be run again.
std::string advice(const std::vector<std::uint32_t>& parts, std::size_t count) {
  return concat(
      "run them again with the same --input and --survey: in a SLURM array "
      "COLDFRAME_PARTS=",
      count, " sbatch --array=", array_text(parts), " …, elsewhere --part ", parts.front(), "/",
      count, parts.size() > 1 ? " and so on" : "");
}

void tell_incomplete(const PartsReport& report, std::size_t missing) {
  const auto parts = incomplete(report);
  log_warning(concat(
      plural(parts.size(), "part"), " of ", report.parts.size(), parts.size() == 1 ? " is" : " are",
      " incomplete, not begun, or assigned otherwise than the last one (", plural(missing, "exam"),
      " missing of those that began); ", advice(parts, report.parts.size())));
}

PartsReport look_at(const Location& location) {
  const std::vector<PartRecord> records = require_part_records(location);
  std::optional<CacheReader> cache;
  if (!location.files().empty()) cache.emplace(location.path, Detail::kWithoutSources);
  return check_parts(location, records, cache ? &*cache : nullptr);
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
  PartsReport report = look_at(location);
  WriterLock lock;
  if (incomplete(report).empty() || give_up) {
    lock = lock_for_end(location, incomplete(report).empty());
    report = look_at(location);  // nobody changes it any more
  }
  const Json json = to_json(options.path(), report);
  if (options.json) print_json(json);
  const bool whole = incomplete(report).empty();
  if (!whole) tell_incomplete(report, json["missing"].get<std::size_t>());
  if (!whole && !give_up) return static_cast<int>(ExitCode::kDoneWithFindings);
  if (!pack.empty()) merge_caches(locate(pack), {options.path()});
  forget_parts(location);
  if (lock) remove_abandoned_shards(location);
  log_info(concat(options.path(), ": ",
                  whole ? concat("all ", plural(report.parts.size(), "part"), " are complete")
                        : "the job has ended",
                  ", ", plural(json["exams"].get<std::size_t>(), "exam"), ", ",
                  plural(report.failed_exams.size(), "failure"),
                  pack.empty() ? "" : concat("; packed into ", pack)));
  return static_cast<int>(whole && report.failed_exams.empty() ? ExitCode::kDone
                                                               : ExitCode::kDoneWithFindings);
}

}  // namespace

const Verb kFinishCommand{
    "cache",
    "finish",
    "PATH",
    "x.cache --pack x.h5",
    "after `extract --part`: is every part complete, and which are to be run again",
    run_finish};

}  // namespace coldframe::cache::tool
