#include "extract/plan/resume/freshness.h"

#include <string_view>
#include <unordered_set>

#include "common/cli/error.h"
#include "common/files/file.h"
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

}  // namespace

Comparison compare_sources(const frames::ExamSpec& exam, const cache::ExamInfo& cached) {
  const ExamStamp before = parse_stamp(cached.source_stamp), now = stamp_of(exam);
  const bool same_frames =
      now.ranges == before.ranges && (now.times == before.times || one_file_per_frame(cached));
  if (same_frames && now.files == before.files) return {Freshness::kMetadata, to_text(now)};
  if (std::string fault = fault_of_sources(exam, cached); !fault.empty())
    return {Freshness::kUnreadable, "", std::move(fault)};
  const bool same = same_frames && frames::source_digest(exam) == cached.source_digest;
  return {same ? Freshness::kMetadata : Freshness::kStale, to_text(now)};
}

}  // namespace coldframe::extract
