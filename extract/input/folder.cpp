#include "extract/input/folder.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "common/cli/error.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "extract/decode/dicom/data_set.h"
#include "extract/decode/dicom/series.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"

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

// A folder of sub-folders of images, of clips and of DICOM series: each is an exam.

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kMaxDepth = 64;

class FolderWalk {
 public:
  FolderWalk(const fs::path& root, const ReaderOptions& options)
      : root_(root), series_(options.grouping) {}

  ExamList list();                                    // all that lies in the folder
  ExamList list(const std::vector<fs::path>& files);  // these of its files

 private:
  ExamList finish();
  void visit(const fs::path& folder);
  void visit_entry(const fs::path& path, ExamSpec& images);
  void visit_file(const fs::path& path, ExamSpec& images);
  bool is_foreign(const SourceFile& file);
  void visit_dicom(const SourceFile& file);
  void pass_over(const fs::path& path, const std::string& reason);
  std::string enter(const fs::path& folder);
  void add_images(ExamSpec images);
  void add_dicoms();
  void add_clips();
  void add(ExamSpec exam);
  std::string relative(const fs::path& path) const {
    return utf8_name(path.lexically_relative(root_).generic_string());
  }
  ExamItem item(const fs::path& path) const {
    ExamItem result;
    result.path = path;
    result.name = relative(path);
    return result;
  }

  fs::path root_;
  std::vector<fs::path> ancestors_;  // real paths of the folders we are in
  ExamList list_;
  std::set<std::string> taken_;   // ids in list_
  std::vector<ExamSpec> images_;  // exams of image files
  std::vector<fs::path> clips_;
  dicom::SeriesList series_;
  std::map<std::string, std::pair<std::size_t, std::string>> foreign_;  // by kind; the first one
  std::size_t hidden_ = 0;
};

[[noreturn]] void refuse(const fs::path& path, const std::string& reason) {
  throw DataError(concat("cannot read folder '", path.string(), "': ", reason));
}

void FolderWalk::pass_over(const fs::path& path, const std::string& reason) {
  list_.warnings.push_back(concat("passed over '", relative(path), "': ", reason));
}

// Symbolic links are followed, but never round in a circle. Returns why the folder cannot be
// entered, "" when it was.
std::string FolderWalk::enter(const fs::path& folder) {
  std::error_code error;
  fs::path real = fs::canonical(folder, error);
  if (error) return error.message();
  if (std::find(ancestors_.begin(), ancestors_.end(), real) != ancestors_.end())
    return concat("this symbolic link leads back to '", real.string(), "', which it lies in");
  if (ancestors_.size() >= kMaxDepth)
    return concat("it lies more than ", kMaxDepth, " folders deep");
  ancestors_.push_back(std::move(real));
  return "";
}

// A folder such as lost+found, which is nobody's exam, stops no job.
void FolderWalk::visit(const fs::path& folder) {
  const auto give_up = [&](const std::string& reason) {
    if (folder == root_) refuse(folder, reason);
    pass_over(folder, reason);
  };
  if (const std::string reason = enter(folder); !reason.empty()) return give_up(reason);
  std::error_code error;
  std::vector<fs::path> entries = entries_of(folder, error);
  if (error) {
    ancestors_.pop_back();
    return give_up(error.message());
  }
  std::sort(entries.begin(), entries.end(), [](const fs::path& a, const fs::path& b) {
    return natural_less(a.filename().string(), b.filename().string());
  });
  ExamSpec images;
  images.id =
      folder == root_ ? utf8_name(ancestors_.front().filename().string()) : relative(folder);
  for (const fs::path& path : entries) visit_entry(path, images);
  add_images(std::move(images));
  ancestors_.pop_back();
}

void FolderWalk::add_images(ExamSpec images) {
  if (images.items.empty()) return;
  if (images.items.size() > 1) images.basis = by_names();
  images_.push_back(std::move(images));
}

void FolderWalk::visit_entry(const fs::path& path, ExamSpec& images) {
  const std::string name = path.filename().string();
  if (name.starts_with('.')) {
    ++hidden_;
    return;
  }
  std::error_code error;
  const fs::file_status status = status_of(path, error);
  if (fs::is_directory(status)) {
    visit(path);
  } else if (fs::is_regular_file(status)) {
    visit_file(path, images);
  } else {
    pass_over(path, error ? error.message() : "it is not a regular file");
  }
}

void FolderWalk::visit_file(const fs::path& path, ExamSpec& images) {
  if (dicom::is_directory_file(path)) return;  // a list of files that are found without it
  const SourceKind* kind = nullptr;
  const SourceFile file(path);
  std::shared_ptr<const ByteSource> held;
  try {
    held = file.hold();
    kind = detect_kind(file);
  } catch (const DataError& error) {
    if (!is_named_as_image(path) && !is_named_as_clip(path)) {
      return pass_over(path, error.what());
    }
  }
  if (kind == nullptr && held != nullptr && is_foreign(file)) return;
  // A file that calls itself an image or a clip and is neither fails its exam, with the reason.
  if (kind == nullptr && is_named_as_image(path)) {
    images.items.push_back(item(path));
  } else if (kind == nullptr && is_named_as_clip(path)) {
    clips_.push_back(path);
  } else if (kind == nullptr) {
    pass_over(path, lower(path.extension().string()) == ".csv"
                        ? "it is a CSV file; to use it as the manifest, pass it as --input"
                        : "it is neither an image nor a clip that can be read");
  } else if (kind->has_series) {
    visit_dicom(file);
  } else if (kind->is_clip) {
    clips_.push_back(path);
  } else {
    images.items.push_back(item(path));
  }
}

// Those of one kind, a phone's pictures for one, are told together.
bool FolderWalk::is_foreign(const SourceFile& file) {
  try {
    if (const ForeignKind* kind = foreign_kind(file)) {
      auto& [count, first] = foreign_[kind->names];
      if (count++ == 0) first = concat("'", relative(file.path()), "' first: ", kind->advice);
      return true;
    }
    return is_analyze_voxels(file);
  } catch (const DataError&) {  // its name decides what becomes of it
    return false;
  }
}

// A file that names no exam, for one a damaged one, is one of its own.
void FolderWalk::visit_dicom(const SourceFile& file) {
  using Verdict = dicom::SeriesList::Verdict;
  std::string reason;
  const Verdict verdict = series_.add(item(file.path()), file, reason);
  if (verdict == Verdict::kNoName) clips_.push_back(file.path());
  if (verdict == Verdict::kNoImage) pass_over(file.path(), reason);
}

void FolderWalk::add_dicoms() {
  auto found = series_.take_exams();
  for (ExamSpec& exam : found.exams) add(std::move(exam));
  for (const ExamItem& item : found.unnamed) clips_.push_back(item.path);
  for (std::string& warning : found.warnings) list_.warnings.push_back(std::move(warning));
}

// A folder of images may be called as another exam is: the later one gets -2, -3 … behind. Those
// that are named by headers come first and keep their ids.
void FolderWalk::add(ExamSpec exam) {
  const std::string id = exam.id;
  for (int i = 2; !taken_.insert(exam.id).second; ++i) exam.id = concat(id, "-", i);
  list_.exams.push_back(std::move(exam));
}

// A clip's id is its path without extension, unless another exam would get the same one.
void FolderWalk::add_clips() {
  std::map<std::string, int> uses;
  for (const ExamSpec& exam : list_.exams) ++uses[exam.id];
  const auto short_id = [&](fs::path path) {
    return relative(path.replace_filename(name_of_exam(path)));
  };
  for (const fs::path& path : clips_) ++uses[short_id(path)];
  for (const fs::path& path : clips_) {
    ExamSpec exam;
    exam.id = uses[short_id(path)] == 1 ? short_id(path) : relative(path);
    exam.items.push_back(item(path));
    add(std::move(exam));
  }
}

ExamList FolderWalk::list() {
  visit(root_);
  return finish();
}

ExamList FolderWalk::list(const std::vector<fs::path>& files) {
  ExamSpec images;
  for (const fs::path& file : files) visit_file(file, images);
  images.id = utf8_name(fs::weakly_canonical(root_).filename().string());
  add_images(std::move(images));
  return finish();
}

ExamList FolderWalk::finish() {
  add_dicoms();
  for (ExamSpec& exam : images_) add(std::move(exam));
  add_clips();
  std::stable_sort(list_.exams.begin(), list_.exams.end(),
                   [](const ExamSpec& a, const ExamSpec& b) { return natural_less(a.id, b.id); });
  for (const auto& [kind, found] : foreign_)
    list_.warnings.insert(list_.warnings.begin(), concat("passed over ", found.first, " ", kind,
                                                         ", which are not read, ", found.second));
  if (hidden_ > 0) {
    list_.warnings.push_back(
        concat("passed over ", hidden_, " hidden (their names start with a ", "dot)"));
  }
  if (list_.exams.empty()) {
    throw DataError(concat("folder '", root_.string(), "' holds no image and no clip that can be ",
                           "read", list_.warnings.empty() ? "" : "; ",
                           list_.warnings.empty() ? "" : list_.warnings.front()));
  }
  return std::move(list_);
}

}  // namespace

ExamList list_folder(const fs::path& folder, const ExamListOptions& options) {
  return FolderWalk(folder, options.reader).list();
}

ExamList list_dicomdir(const fs::path& dicomdir, const ExamListOptions& options) {
  const fs::path folder = dicomdir.has_parent_path() ? dicomdir.parent_path() : fs::path(".");
  return FolderWalk(folder, options.reader).list(dicom::read_directory(dicomdir));
}

}  // namespace coldframe::frames
