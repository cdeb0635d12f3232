#include "extract/plan/part_of_job.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::extract {

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
