#include "extract/frames/dicom/directory.h"

#include <dcmtk/dcmdata/dcsequen.h>

#include <set>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/files/file.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "extract/frames/dicom/data_set.h"

namespace coldframe::frames::dicom {
namespace {

namespace fs = std::filesystem;

// ReferencedFileID holds the folders and the name as values of their own (PS3.3 F.3.2.2).
fs::path referenced_file(DcmItem& record) {
  OFString text;
  if (record.findAndGetOFStringArray(DCM_ReferencedFileID, text).bad()) return {};
  fs::path path;
  for (const std::string& value : split(std::string_view(text.c_str(), text.size()), '\\')) {
    const std::string part = trim(value);
    if (part.empty()) continue;
    if (part == "." || part == ".." || part.find('/') != std::string::npos ||
        part.find('\0') != std::string::npos) {
      throw DataError(concat("it names the file '", std::string_view(text.c_str(), text.size()),
                             "'; expected one in its own folder"));
    }
    path /= part;
  }
  return path;
}

// Discs are mounted with their names in capitals or in small letters.
fs::path find_file(const fs::path& folder, const fs::path& name) {
  const fs::path small = folder / lower(name.string());
  if (!fs::exists(status_of(folder / name)) && fs::exists(status_of(small))) return small;
  return folder / name;
}

// Through a symbolic link a file may still lie elsewhere.
void require_inside(const fs::path& folder, const fs::path& file) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(file, error), home = fs::weakly_canonical(folder);
  if (error || real.lexically_relative(home).string().starts_with("..")) {
    throw DataError(
        concat("it names the file '", file.string(), "', which lies outside its ", "folder"));
  }
}

std::vector<fs::path> referenced_files(const fs::path& path) {
  const DataSet data(std::make_shared<InputFile>(path, refuse_unnamed));
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<fs::path> files;
  std::set<fs::path> seen;
  DcmSequenceOfItems* records = nullptr;
  if (data.root().findAndGetSequence(DCM_DirectoryRecordSequence, records).bad())
    throw DataError("it is not a DICOMDIR: it has no directory records");
  for (DcmObject* object = nullptr; (object = records->nextInContainer(object)) != nullptr;) {
    auto* record = dynamic_cast<DcmItem*>(object);
    const fs::path name = record == nullptr ? fs::path() : referenced_file(*record);
    if (name.empty() || !seen.insert(name).second) continue;
    files.push_back(find_file(folder, name));
    require_inside(folder, files.back());
  }
  if (files.empty()) throw DataError("it names no file");
  return files;
}

}  // namespace

bool is_directory_file(const fs::path& path) {
  return lower(path.filename().string()) == "dicomdir";
}

std::vector<fs::path> read_directory(const fs::path& path) {
  return in_context(concat("'", path.string(), "'"), [&] { return referenced_files(path); });
}

}  // namespace coldframe::frames::dicom
