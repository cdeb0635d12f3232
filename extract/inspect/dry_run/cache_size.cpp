#include "extract/inspect/dry_run/cache_size.h"

#include <algorithm>
#include <map>
#include <string>

namespace coldframe::extract::dry_run {
namespace {

// The recipe and the objects of a file, empty as they are.
constexpr std::uint64_t kFileBytes = 12 << 10;
// Each frame has time, index, whether it is present.
constexpr std::uint64_t kFrameBytes = 8 + 8 + 1;
// Each exam has ordinal, revision, offset, start, size of a frame, stamp and digest of its sources.
constexpr std::uint64_t kExamBytes = 8 + 4 + 8 + 8 + 8 + 85 + 32;
// A frame's thumbnail has its place, an exam's thumbnails and each view's features a checksum.
constexpr std::uint64_t kOffsetBytes = 8, kChecksumBytes = 8;

// Texts of one kind take as many bytes each as the longest of them.
class LongestTexts {
 public:
  void add(const std::string& kind, const std::string& text) {
    std::uint64_t& longest = bytes_[kind];
    longest = std::max<std::uint64_t>(longest, text.size());
  }
  std::uint64_t bytes() const {
    std::uint64_t sum = 0;
    for (const auto& [kind, longest] : bytes_) sum += longest;
    return sum;
  }

 private:
  std::map<std::string, std::uint64_t> bytes_;
};

}  // namespace

std::uint64_t estimate_cut_bytes(const Report& report, std::size_t width) {
  if (!report.cut) return 0;
  constexpr std::uint64_t kPatchPixels = 16 * 16;
  const auto pixels = static_cast<std::uint64_t>(report.image_size.pixels());
  return *report.cut == 0 ? 3 * pixels : (1 + pixels / kPatchPixels) * width * report.feature_bytes;
}

std::uint64_t estimate_cache_bytes(const Report& report, std::size_t width) {
  LongestTexts of_exams, of_frames;
  std::uint64_t exams = 0, frames = 0, thumbnails = 0;
  for (std::size_t i = 0; i < report.input.exams.size(); ++i) {
    const frames::ExamSpec& exam = report.input.exams[i];
    const ExamSurvey& found = report.survey.exams[i];
    if (!found.failure.empty()) continue;
    ++exams;
    frames += found.selected;
    thumbnails += found.thumbnail_bytes;
    of_exams.add("id", exam.id);
    of_exams.add("patient", exam.patient);
    of_exams.add("kind", found.kind);
    for (const auto& [name, value] : exam.columns) of_exams.add("column " + name, value);
    for (const frames::ExamItem& item : exam.items) {
      of_frames.add("source", item.name);
      for (std::size_t c = 0; c < item.frame_columns.size(); ++c)
        of_frames.add("column " + std::to_string(c), item.frame_columns[c]);
    }
  }
  const std::uint64_t pictured = thumbnails > 0 ? 1 : 0;
  const std::uint64_t cut_bytes = estimate_cut_bytes(report, width);
  const std::uint64_t arrays = report.views * (report.cut ? 2 : 1);
  return kFileBytes + thumbnails +
         frames * ((width * report.feature_bytes + cut_bytes) * report.views + kFrameBytes +
                   of_frames.bytes() + pictured * kOffsetBytes) +
         exams * (kExamBytes + of_exams.bytes() + (arrays + pictured) * kChecksumBytes);
}

}  // namespace coldframe::extract::dry_run
