#include "extract/plan/part.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/text/text.h"

namespace coldframe::extract {

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
