#include "extract/plan/part.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/text/text.h"

namespace coldframe::extract {
namespace {

Part part_of_text(const std::string& text) {
  const std::vector<std::string> words = split(text, '/');
  std::int64_t index = -1, count = 0;
  if (words.size() != 2 || !parse_int(words[0], index) || !parse_int(words[1], count) ||
      index < 0 || index >= count || count > kMostParts)
    throw ConfigError(concat("--part '", text, "': expected I/N, part I of N parts, with I from 0 ",
                             "to N − 1 and N up to ", kMostParts, ", or off"));
  return {static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(count), "--part"};
}

struct Place {
  std::int64_t index = 0, count = 1;
};

Place place_in_array(const Environment& environment) {
  constexpr const char* kTask = "SLURM_ARRAY_TASK_ID";
  if (environment(kTask) == nullptr) return {};
  const auto number = [&](const char* name) {
    return environment_number(environment, name, kTask);
  };
  const std::int64_t task = number(kTask);
  const std::int64_t first = number("SLURM_ARRAY_TASK_MIN");
  const std::int64_t last = number("SLURM_ARRAY_TASK_MAX");
  const std::int64_t step = number("SLURM_ARRAY_TASK_STEP");
  const std::int64_t count = number("SLURM_ARRAY_TASK_COUNT");
  const bool even = step > 0 && count > 0 && (last - first) / step + 1 == count && task >= first &&
                    task <= last && (task - first) % step == 0;
  if (!even)
    throw ConfigError(
        concat("the array's tasks (", count, " from ", first, " to ", last,
               ") leave some out, so that parts cannot be told from them; give --part "
               "$SLURM_ARRAY_TASK_ID/N with the N of the first submission"));
  return {(task - first) / step, count};
}

Part part_of_environment(const Environment& environment, const JobStep& step) {
  const Place array = place_in_array(environment);
  if (array.count > kMostParts || step.count > kMostParts || array.count * step.count > kMostParts)
    throw ConfigError(concat("the environment makes ", array.count, " times ", step.count,
                             " parts; at most ", kMostParts, " are possible, so give --part I/N"));
  const std::int64_t count = array.count * step.count;
  if (environment("JOB_COMPLETION_INDEX") != nullptr && count == 1)
    throw ConfigError(
        "JOB_COMPLETION_INDEX is set, which does not say of how many; give --part "
        "$JOB_COMPLETION_INDEX/N with the job's completions as N, or --part off for all exams");
  if (count == 1) return {};
  std::vector<std::string> sources;
  if (array.count > 1) sources.emplace_back("SLURM_ARRAY_TASK_ID");
  if (step.several()) sources.push_back(step.source);
  return {static_cast<std::uint32_t>(array.index * step.count + step.index),
          static_cast<std::uint32_t>(count), join(sources, " and ")};
}

}  // namespace

Part choose_part(const std::string& option, const Environment& environment) {
  if (option == "off") return {};
  const JobStep step = job_step(environment);
  if (option.empty()) return part_of_environment(environment, step);
  if (step.several())
    throw ConfigError(concat("--part ", option, " in a step of ", step.count, " tasks: each would ",
                             "extract the same part; start it with --ntasks=1, or leave --part "
                             "out"));
  return part_of_text(option);
}

std::vector<std::uint32_t> assign_parts(std::size_t exams, std::span<const std::uint64_t> frames,
                                        std::uint32_t count) {
  std::vector<std::uint32_t> parts(exams);
  if (frames.empty()) {
    for (std::size_t i = 0; i < exams; ++i) parts[i] = static_cast<std::uint32_t>(i % count);
    return parts;
  }
  std::vector<std::size_t> order(exams);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater(), [&](std::size_t exam) { return frames[exam]; });
  using Load = std::pair<std::uint64_t, std::uint32_t>;  // frames, part
  std::priority_queue<Load, std::vector<Load>, std::greater<>> loads;
  for (std::uint32_t part = 0; part < count; ++part) loads.emplace(0, part);
  for (const std::size_t exam : order) {
    auto [load, part] = loads.top();
    loads.pop();
    parts[exam] = part;
    loads.emplace(load + std::max<std::uint64_t>(1, frames[exam]), part);
  }
  return parts;
}

std::vector<std::uint64_t> surveyed_frames(const std::filesystem::path& survey,
                                           const frames::ExamList& input) {
  const Json json = read_json_file(survey);
  std::unordered_map<std::string, std::uint64_t> known;
  try {
    for (const Json& exam : json.at("exams"))
      known.emplace(exam.at("exam"), exam.at("selected").get<std::uint64_t>());
  } catch (const Json::exception& error) {
    throw DataError(concat("--survey ", survey.string(), ": not what `coldframe extract --dry-run ",
                           "--json` prints (", error.what(), ")"));
  }
  std::vector<std::uint64_t> frames;
  std::uint64_t sum = 0, found = 0;
  for (const frames::ExamSpec& exam : input.exams) {
    const auto entry = known.find(exam.id);
    frames.push_back(entry == known.end() ? 0 : std::max<std::uint64_t>(1, entry->second));
    sum += frames.back();
    found += entry != known.end();
  }
  if (found == 0)
    throw DataError(concat("--survey ", survey.string(), ": it names none of the input's exams; ",
                           "make it anew with --dry-run --json"));
  std::ranges::replace(frames, std::uint64_t{0}, std::max<std::uint64_t>(1, sum / found));
  return frames;
}

}  // namespace coldframe::extract
