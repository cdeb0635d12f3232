#include "extract/pipeline/part_of_job.h"

#include <algorithm>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/fingerprint.h"
#include "common/files/json.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/exam_list.h"

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

Part part_of_job(const ExtractOptions& options, const cache::Location& location) {
  Part part = choose_part(options.part, from_environment);
  if (!part.shared()) return part;
  const std::string what = part.text();
  if (location.single_file)
    throw ConfigError(concat(what, ": parts share a folder, and --out ", options.out.string(),
                             " is one file; give a name that does not end in .h5, or --part off "
                             "for all exams (`coldframe cache finish --pack` makes one file)"));
  log_warning(concat("this process extracts ", what, " alone; --part off extracts all exams"));
  return part;
}

TakenPart::TakenPart(const Part& part, const ExtractOptions& options, const frames::ExamList& input,
                     const cache::Location& location)
    : shared_(part.shared()), location_(location) {
  if (!shared_) return;
  const auto frames = options.survey.empty() ? std::vector<std::uint64_t>()
                                             : surveyed_frames(options.survey, input);
  const auto parts = assign_parts(input.exams.size(), frames, part.count);
  record_.part = part.index;
  record_.parts = part.count;
  mine_.resize(parts.size());
  std::string all = concat(part.count);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    all += concat("\n", parts[i], ' ', input.exams[i].id);
    mine_[i] = parts[i] == part.index;
    if (mine_[i]) record_.exams.push_back(input.exams[i].id);
  }
  record_.assignment = sha256_hex(all);
  const auto divisions = cache::read_divisions(location);
  if (std::ranges::any_of(divisions, [&](const cache::Division& division) {
        return division.front().assignment != record_.assignment;
      }))
    log_warning(
        "parts that ran before were assigned otherwise: by another --input, --survey or N; all of "
        "them have to run again as this one does (`coldframe cache finish` says which)");
  cache::write_part_record(location, record_);
}

void TakenPart::finished() {
  if (!shared_) return;
  record_.finished = true;
  cache::write_part_record(location_, record_);
}

}  // namespace coldframe::extract
