#include "extract/plan/part_of_job.h"

#include <cstdlib>

#include "cache/maintain/parts.h"
#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::extract {

Part part_of_job(const ExtractOptions& options, const cache::Location& location) {
  if (options.recheck > 0) return {};
  Part part = choose_part(options.part, [](const char* name) { return std::getenv(name); });
  if (!part.shared()) return part;
  const std::string what = concat("part ", part.index, " of ", part.count, " (", part.source, ")");
  if (location.single_file)
    throw ConfigError(concat(what, ": parts share a folder, and --out ", options.out.string(),
                             " is one file; give a name that does not end in .h5, or --part off "
                             "for all exams (`coldframe cache finish --pack` makes one file)"));
  if (options.rename || options.replace)
    throw ConfigError(concat(what,
                             ": --rename and --replace are for a job of its own; give "
                             "--part off once, and parts after that"));
  log_warning(concat("this process extracts ", what, " alone; --part off extracts all exams"));
  return part;
}

std::vector<bool> take_part(const Part& part, const ExtractOptions& options,
                            const frames::ExamList& input, const cache::Location& location) {
  if (!part.shared()) return {};
  const auto frames = options.survey.empty() ? std::vector<std::uint64_t>()
                                             : surveyed_frames(options.survey, input);
  const auto parts = assign_parts(input.exams.size(), frames, part.count);
  cache::PartRecord record{part.index, part.count, 0, "", {}};
  std::vector<bool> mine(input.exams.size());
  for (std::size_t i = 0; i < parts.size(); ++i) {
    mine[i] = parts[i] == part.index;
    if (mine[i]) record.exams.push_back(input.exams[i].id);
  }
  cache::write_part_record(location, record);
  return mine;
}

}  // namespace coldframe::extract
