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

int run_finish(const std::vector<std::string>& arguments) {
  namespace po = boost::program_options;
  VerbOptions options;
  std::string pack;
  po::options_description more;
  more.add_options()("pack", po::value(&pack)->value_name("FILE.h5"),
                     "also write the whole cache as this one file");
  if (!parse_verb(kFinishCommand, arguments, options, more)) return 0;
  const Location location = locate(options.path());
  const CacheReader cache(options.path(), Detail::kWithoutSources);
  const PartsReport report = check_parts(location, &cache);
  if (report.parts.empty())
    throw CacheError(concat(options.path(), ": no part has left a record (.part-*.json): it was ",
                            "not extracted with --part, or is finished already"));
  const Json json = to_json(options.path(), report);
  if (options.json) print_json(json);
  if (const auto parts = incomplete(report); !parts.empty()) {
    log_warning(concat(plural(parts.size(), "part"), " of ", report.parts.size(),
                       parts.size() == 1 ? " is" : " are", " incomplete (",
                       plural(json["missing"].get<std::size_t>(), "exam"),
                       " missing of those that began); run again: --array=", array_text(parts)));
    return static_cast<int>(ExitCode::kDoneWithFindings);
  }
  if (!pack.empty()) merge_caches(locate(pack), {options.path()});
  forget_parts(location);
  log_info(concat(options.path(), ": all ", plural(report.parts.size(), "part"), " are complete, ",
                  plural(json["exams"].get<std::size_t>(), "exam"), ", ",
                  plural(report.failed_exams.size(), "failure"),
                  pack.empty() ? "" : concat("; packed into ", pack)));
  return static_cast<int>(report.failed_exams.empty() ? ExitCode::kDone
                                                      : ExitCode::kDoneWithFindings);
}

}  // namespace

const Command kFinishCommand{
    "finish", "PATH", "x.cache --pack x.h5",
    "after `extract --part`: is every part complete, and which are to be run again", run_finish};

}  // namespace coldframe::cache::tool
