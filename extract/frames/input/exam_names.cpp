#include "extract/frames/input/exam_names.h"

#include <string_view>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/dicom/series.h"
#include "extract/frames/input/file_name.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

enum class Content { kSeries, kOther, kUnreadable };

Content content_of_file(const SourceFile& file) {
  try {
    const SourceKind* kind = detect_kind(file);
    return kind != nullptr && kind->has_series ? Content::kSeries : Content::kOther;
  } catch (const DataError&) {
    return Content::kUnreadable;
  }
}

FilePlace named_after_path(const ExamItem& item) {
  std::filesystem::path path = item.name;
  FilePlace place;
  place.exam = path.replace_filename(name_of_exam(path)).generic_string();
  return place;
}

}  // namespace

bool has_series(const ExamItem& file) {
  return !file.path.empty() && content_of_file(SourceFile(file.path)) == Content::kSeries;
}

NamedExams name_exams(const std::vector<ExamItem>& files, DicomGrouping grouping,
                      std::vector<std::string>& warnings) {
  using Verdict = dicom::SeriesList::Verdict;
  NamedExams named;
  auto& places = named.places;
  std::vector<const ExamItem*> unreadable;
  dicom::SeriesList series(grouping);
  bool any_dicom = false;
  for (const ExamItem& item : files) {
    const auto [place, is_new] = places.try_emplace(item.name);
    if (!is_new) continue;
    const SourceFile file(item.path);
    const Content content = content_of_file(file);
    any_dicom = any_dicom || content == Content::kSeries;
    if (content == Content::kUnreadable) unreadable.push_back(&item);
    if (content != Content::kSeries) continue;
    std::string reason;
    const Verdict verdict = series.add(item, file, reason);
    if (verdict == Verdict::kNoName) place->second = named_after_path(item);
    place->second.passed_over = verdict == Verdict::kNoImage;
    if (verdict == Verdict::kNoImage)
      warnings.push_back(concat("passed over '", item.name, "': ", reason));
    if (verdict == Verdict::kTaken) place->second.passed_over = true;  // until its exam is named
  }
  auto found = series.take_exams();
  for (ExamSpec& exam : found.exams) {
    for (const ExamItem& item : exam.items) places[item.name] = {exam.id, false, true};
    const std::string id = exam.id;
    named.exams.emplace(id, std::move(exam));
  }
  for (const ExamItem& item : found.unnamed) places[item.name] = named_after_path(item);
  for (std::string& warning : found.warnings) warnings.push_back(std::move(warning));
  for (const ExamItem* item : unreadable)
    if (any_dicom) places[item->name] = named_after_path(*item);
  return named;
}

}  // namespace coldframe::frames
