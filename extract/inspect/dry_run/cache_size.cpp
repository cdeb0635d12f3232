#include "extract/inspect/dry_run/cache_size.h"

#include <string>

#include "cache/format/shard.h"

namespace coldframe::extract::dry_run {
namespace {

// The recipe and the objects of a file, empty as they are.
constexpr std::uint64_t kFileBytes = 12 << 10;
// The lengths of what an extraction notes of an exam's files (exam_stamp.h, source_digest.h).
constexpr std::size_t kStampBytes = 85, kDigestBytes = 32;

// What the cache will say of the exam, as far as it decides about sizes.
cache::ExamInfo info_of(const frames::ExamSpec& exam, const ExamSurvey& found,
                        const std::vector<std::string>& frame_columns) {
  cache::ExamInfo info;
  info.id = exam.id;
  info.patient = exam.patient;
  info.source_kind = found.kind;
  info.source_stamp.resize(kStampBytes);
  info.source_digest.resize(kDigestBytes);
  for (const auto& [name, value] : exam.columns) info.columns.push_back({name, value});
  for (const std::string& name : frame_columns) info.frame_columns.push_back({name, {}});
  for (const frames::ExamItem& item : exam.items) {
    info.frame_source.push_back(item.name);
    for (std::size_t c = 0; c < item.frame_columns.size(); ++c)
      info.frame_columns[c].values.push_back(item.frame_columns[c]);
  }
  return info;
}

}  // namespace

std::uint64_t estimate_cut_bytes(const Report& report, std::size_t width) {
  if (!report.cut) return 0;
  constexpr std::uint64_t kPatchPixels = 16 * 16;
  const auto pixels = static_cast<std::uint64_t>(report.image_size.pixels());
  return *report.cut == 0 ? 3 * pixels : (1 + pixels / kPatchPixels) * width * report.feature_bytes;
}

std::uint64_t estimate_cache_bytes(const Report& report, std::size_t width) {
  cache::MetadataSize size;
  cache::RowCounts counts;
  for (std::size_t i = 0; i < report.input.exams.size(); ++i) {
    const frames::ExamSpec& exam = report.input.exams[i];
    const ExamSurvey& found = report.survey.exams[i];
    if (!found.failure.empty()) continue;
    ++counts.exams;
    counts.frames += found.selected;
    counts.thumbnail_bytes += found.thumbnail_bytes;
    size.observe(info_of(exam, found, report.input.frame_columns));
  }
  const std::uint64_t row_bytes = width * report.feature_bytes + estimate_cut_bytes(report, width);
  return kFileBytes + counts.frames * report.views * row_bytes +
         size.bytes(counts, report.views * (report.cut ? 2 : 1), counts.thumbnail_bytes > 0);
}

}  // namespace coldframe::extract::dry_run
