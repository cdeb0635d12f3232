#include "extract/plan/resume/freshness.h"

#include <algorithm>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/frames/input/source_digest.h"
#include "extract/plan/resume/exam_stamp.h"
#include "extract/plan/resume/slot_items.h"

namespace coldframe::extract {
namespace {

// Says why a file that gave a cached frame cannot be opened any more; "" where all can.
std::string fault_of_sources(const frames::ExamSpec& exam, const cache::ExamInfo& cached) {
  std::unordered_set<std::string_view> sources;
  for (std::size_t slot = 0; slot < cached.frames(); ++slot)
    if (cached.present[slot]) sources.insert(cached.frame_source[slot]);
  try {
    for (const auto& item : exam.items)
      if (sources.erase(item.name) > 0) const InputFile opened(item.path);
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

bool has_other_patient(const frames::ExamSpec& exam, const cache::ExamInfo& cached) {
  return !exam.patient.empty() && !cached.patient.empty() && !same_id(exam.patient, cached.patient);
}

// The first file of an exam; missing frames have none.
std::string_view first_of(const auto& names) {
  const auto found = std::ranges::find_if(names, [](const auto& name) { return !name.empty(); });
  return found == names.end() ? std::string_view() : std::string_view(*found);
}

using Names = std::unordered_set<std::string_view>;

// "'a.png' and 2 more files of patient 'P1'"
std::string description(const Names& files, std::string_view first, const std::string& patient) {
  std::string text = files.empty() ? "no file" : concat("'", first, "'");
  if (files.size() > 1) text += concat(" and ", plural(files.size() - 1, "more file"));
  return patient.empty() ? text : concat(text, " of patient '", patient, "'");
}

}  // namespace

Comparison compare_sources(const frames::ExamSpec& exam, const cache::ExamInfo& cached) {
  const ExamStamp before = parse_stamp(cached.source_stamp), now = stamp_of(exam);
  const bool same_frames =
      now.ranges == before.ranges && (now.times == before.times || one_file_per_frame(cached));
  const bool same_files = now.files == before.files;
  if (same_frames && same_files) return {Freshness::kMetadata, to_text(now)};
  if (std::string fault = fault_of_sources(exam, cached); !fault.empty())
    return {Freshness::kUnreadable, "", std::move(fault)};
  if (!same_files && frames::source_digest(exam) != cached.source_digest)
    return {Freshness::kChanged, to_text(now)};
  return {same_frames ? Freshness::kMetadata : Freshness::kStale, to_text(now)};
}

std::string clash_of_ids(const frames::ExamSpec& exam, Freshness freshness,
                         const cache::ExamInfo& cached) {
  if (freshness != Freshness::kChanged && freshness != Freshness::kUnreadable) return "";
  std::vector<std::string_view> names;
  for (const frames::ExamItem& item : exam.items) names.push_back(item.name);
  Names now(names.begin(), names.end()),
      before(cached.frame_source.begin(), cached.frame_source.end());
  for (Names* files : {&now, &before}) files->erase("");  // of missing frames
  const bool other_patient = has_other_patient(exam, cached);
  const auto is_there = [&](std::string_view name) { return now.contains(name); };
  const bool other_files = !before.empty() && std::ranges::none_of(before, is_there);
  // Files that cannot be read may be the same ones: only names and patient together speak.
  const bool clashes = freshness == Freshness::kUnreadable
                           ? other_patient && other_files
                           : other_patient || (other_files && !exam.id_from_header);
  if (!clashes) return "";
  return concat("exam '", cached.id, "': the cache has ",
                description(before, first_of(cached.frame_source), cached.patient), ", the input ",
                description(now, first_of(names), exam.patient));
}

}  // namespace coldframe::extract
