#include "extract/frames/input/exam_list.h"

#include <algorithm>
#include <system_error>

#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "common/text/printable.h"
#include "common/text/text.h"
#include "extract/frames/dicom/directory.h"
#include "extract/frames/dicom/series.h"
#include "extract/frames/foreign.h"
#include "extract/frames/input/channels.h"
#include "extract/frames/input/file_name.h"
#include "extract/frames/input/header_times.h"
#include "extract/frames/input/identity.h"
#include "extract/frames/input/path_pattern.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

namespace fs = std::filesystem;

ExamList list_single_file(const SourceFile& file, bool series, const ReaderOptions& options) {
  ExamItem item;
  item.path = file.path();
  item.name = utf8_name(item.path.filename().string());
  ExamList list;
  if (series) {
    dicom::SeriesList names(options.grouping);
    std::string reason;  // why it names no exam, which opening it will say again
    names.add(item, file, reason);
    list.exams = names.take_exams().exams;
  }
  if (!list.exams.empty()) return list;
  ExamSpec exam;
  exam.id = utf8_name(name_of_exam(file.path()));
  exam.items.push_back(std::move(item));
  list.exams.push_back(std::move(exam));
  return list;
}

// Takes from a file's header what the input leaves unsaid, and returns its frames where they are of
// several streams. A file that cannot be read fails later, with its exam.
std::vector<ChannelFrame> complete_from_header(ExamSpec& exam, const ReaderOptions& options) {
  const auto first = std::find_if(exam.items.begin(), exam.items.end(),
                                  [](const ExamItem& item) { return !item.path.empty(); });
  if (first == exam.items.end()) return {};
  try {
    const SourceFile file(first->path);
    const auto held = file.hold();
    const SourceKind* kind = detect_kind(file);
    if (kind == nullptr || kind->facts == nullptr) return {};
    SourceFacts facts = kind->facts(file, options);
    if (exam.patient.empty()) exam.patient = std::move(facts.patient);
    if (std::isnan(exam.start_time)) exam.start_time = facts.start_time;
    const OrderBasis& basis = exam.items.size() == 1 ? facts.basis : exam.basis;
    if (basis.unusual) facts.columns.emplace_back(kOrderColumn, basis.order);
    for (auto& [name, value] : facts.columns) {
      const auto same = [&, &name = name](const auto& column) { return column.first == name; };
      if (std::none_of(exam.columns.begin(), exam.columns.end(), same))
        exam.columns.emplace_back(std::move(name), std::move(value));
    }
    return std::move(facts.frames);
  } catch (const DataError&) {
    return {};
  }
}

using List = ExamList(const fs::path&, const ExamListOptions&);

ExamList list_by_path(List& list_all, const fs::path& input, const ExamListOptions& options) {
  if (options.exam_from.empty()) return list_all(input, options);
  const PathPattern pattern(options.exam_from);
  ExamList list = list_all(input, options);
  name_by_pattern(pattern, list);
  return list;
}

ExamList list_any(const fs::path& input, const ExamListOptions& options) {
  std::error_code error;
  const fs::file_status status = status_of(input, error);
  if (!fs::exists(status)) {
    throw DataError(concat("input '", input.string(), "' cannot be found: ",
                           error ? error.message() : "no such file or folder", why_missing(input)));
  }
  const bool folder = fs::is_directory(status);
  const bool manifest = !folder && is_named_as_table(input);
  const std::vector<std::string> of_channels{channel_column(options)};
  if (!manifest && !options.frame_columns.empty() && options.frame_columns != of_channels)
    throw ConfigError(
        "--frame-columns needs a CSV manifest as --input (of other inputs, channels of stacks fill "
        "one column: stream, or what --streams names)");
  if (!manifest && !options.columns.empty())
    throw ConfigError("--columns needs a CSV manifest as --input");
  const bool split = !folder && is_named_as_split(input);
  if (!folder && !split && !options.exam_from.empty())
    throw ConfigError(
        "--exam-from needs a folder or a split as --input; a manifest names exams and patients");
  if (!manifest && !split && !options.root.empty())
    throw ConfigError("--root needs a CSV manifest or a split (.json) as --input");
  if (folder)
    return list_by_path(list_folder, input.has_filename() ? input : input.parent_path(), options);
  if (split) return list_by_path(list_split, input, options);
  if (manifest) return list_manifest(input, options);
  const SourceFile file(input);
  const SourceKind* kind = detect_kind(file);
  if (kind != nullptr && kind->has_series && dicom::is_directory_file(input))
    return list_dicomdir(input, options);
  if (kind != nullptr) return list_single_file(file, kind->has_series, options.reader);
  if (foreign_kind(file) != nullptr) require_kind(file);
  throw DataError(concat("input '", input.string(),
                         "' is neither a folder, an image, a clip, a manifest (a name that ends ",
                         "in .csv) nor a split (.json)"));
}

}  // namespace

std::vector<std::string> shown_warnings(const ExamList& list) {
  constexpr std::size_t kShown = 20;
  if (list.warnings.size() <= kShown) return list.warnings;
  std::vector<std::string> shown(list.warnings.begin(), list.warnings.begin() + kShown);
  shown.push_back(concat("… and ", list.warnings.size() - kShown,
                         " more such warnings (--dry-run --json lists all)"));
  return shown;
}

ExamList list_exams(const fs::path& input, const ExamListOptions& options) {
  ExamList list = list_any(input, options);
  ChannelStreams channels(options);
  for (ExamSpec& exam : list.exams) {
    settle_header_times(exam, options);
    std::vector<ChannelFrame> frames = complete_from_header(exam, options.reader);
    if (!frames.empty()) channels.part(exam, std::move(frames));
  }
  channels.finish(list);
  store_patients(list, options.reader);
  return list;
}

}  // namespace coldframe::frames
