#include <algorithm>
#include <iostream>
#include <optional>

#include "cache/store/parts.h"
#include "cache/tool/command.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

// A shard is at most a minute old when it appears, and a slow exam may take several.
constexpr double kStandsStillSeconds = 15 * 60;

struct Summary {
  std::size_t exams = 0, done = 0, failed = 0;  // of parts that have begun
  std::size_t complete = 0, working = 0, waiting = 0;
  std::vector<std::uint32_t> still;
  double first = 0, last = 0;  // Unix seconds: of the first start and the last shard
  double per_second = 0;       // frames
  double remaining = 0;        // seconds
};

Summary summarise(const PartsReport& report, const Division& records, double now) {
  Summary sum;
  sum.first = now;
  for (const PartRecord& record : records) sum.first = std::min(sum.first, record.started);
  for (const PartState& part : report.parts) {
    sum.exams += part.exams;
    sum.done += part.done;
    sum.failed += part.failed;
    sum.last = std::max(sum.last, part.last_shard);
    const bool still = now - part.last_shard > kStandsStillSeconds;
    if (!part.begun)
      ++sum.waiting;
    else if (part.complete())
      ++sum.complete;
    else if (still)
      sum.still.push_back(part.part);
    else
      ++sum.working;
  }
  const double seconds = sum.last - sum.first;
  if (seconds > 0) sum.per_second = static_cast<double>(report.frames) / seconds;
  // Parts that have not begun count as the mean of those that have.
  const auto begun = static_cast<double>(report.parts.size() - sum.waiting);
  const auto done = static_cast<double>(sum.done + sum.failed);
  const double all = static_cast<double>(sum.exams) * static_cast<double>(report.parts.size());
  if (seconds > 0 && done > 0 && begun > 0)
    sum.remaining = std::max(0.0, (all / begun - done) * seconds / done);
  return sum;
}

Json to_json(const PartsReport& report, const Summary& sum) {
  Json parts = Json::array();
  for (const PartState& part : report.parts)
    parts.push_back({{"part", part.part},
                     {"begun", part.begun},
                     {"exams", part.exams},
                     {"done", part.done},
                     {"failed", part.failed},
                     {"last_shard", part.last_shard}});
  return {{"exams", sum.done},
          {"failed", sum.failed},
          {"frames", report.frames},
          {"frames_per_second", sum.per_second},
          {"remaining_seconds", sum.remaining},
          {"complete", sum.complete},
          {"working", sum.working},
          {"waiting", sum.waiting},
          {"stand_still", sum.still},
          {"parts", parts}};
}

void print(const PartsReport& report, const Summary& sum, double now) {
  std::cout << concat("parts      ", sum.complete, " of ", report.parts.size(), " complete, ",
                      sum.working, " at work, ", sum.waiting, " not begun\n");
  std::cout << concat("exams      ", sum.done, " done, ", sum.failed, " failed, ",
                      sum.exams - sum.done - sum.failed, " to do in parts that have begun\n");
  std::cout << concat("frames     ", report.frames, ", ", fixed(sum.per_second, 1),
                      " a second since the start\n");
  if (sum.complete < report.parts.size())
    std::cout << concat("remaining  ",
                        sum.per_second > 0
                            ? concat("about ", human_duration(sum.remaining), " at this rate\n")
                            : "not known yet\n");
  for (const std::uint32_t part : sum.still) {
    const PartState& state = report.parts[part];
    std::cout << concat("part ", part, " stands still: ", state.done + state.failed, " of ",
                        state.exams, " exams, its last shard is ",
                        human_duration(now - state.last_shard), " old\n");
  }
}

int run_progress(const Verb& verb, const std::vector<std::string>& arguments) {
  VerbOptions options;
  if (!parse_verb(verb, arguments, options)) return 0;
  const Location location = locate(options.path());
  const std::vector<Division> divisions = require_divisions(location);
  std::optional<CacheReader> cache;
  if (!location.files().empty()) cache.emplace(options.path(), Detail::kWithoutSources);
  const double now = now_there(location);
  bool still = false;
  Json json = Json::array();
  for (const Division& division : divisions) {
    const PartsReport report = check_parts(location, division, cache ? &*cache : nullptr);
    const Summary sum = summarise(report, division, now);
    still |= !sum.still.empty();
    options.json ? json.push_back(to_json(report, sum)) : print(report, sum, now);
  }
  if (options.json) print_json(json.size() == 1 ? json[0] : Json{{"divisions", json}});
  if (divisions.size() > 1)
    log_warning(concat("the job was divided in ", divisions.size(),
                       " ways; `coldframe cache finish` says what is missing of each"));
  return still ? static_cast<int>(ExitCode::kDoneWithFindings) : 0;
}

}  // namespace

extern const Verb kProgressCommand;
const Verb kProgressCommand{&kCache,
                            "progress",
                            "PATH",
                            "x.cache",
                            "how far the parts of `extract --part` are, and which have stalled",
                            run_progress};

}  // namespace coldframe::cache::tool
