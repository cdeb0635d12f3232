#include "extract/frames/input/file_name.h"

#include <algorithm>
#include <string_view>
#include <system_error>

#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

// The one of the suffixes, parted by spaces, that the name ends with; "" for none of them.
std::string_view suffix_of(const std::filesystem::path& path, std::string_view suffixes) {
  const std::string name = lower(path.filename().string());
  while (!suffixes.empty()) {
    const std::string_view suffix = suffixes.substr(0, suffixes.find(' '));
    if (name.size() > suffix.size() && name.ends_with(suffix)) return suffix;
    suffixes.remove_prefix(std::min(suffixes.size(), suffix.size() + 1));
  }
  return {};
}

bool promises(const std::filesystem::path& path, bool clip) {
  return std::ranges::any_of(source_kinds(), [&](const SourceKind* kind) {
    return kind->is_clip == clip && !suffix_of(path, kind->suffixes).empty();
  });
}

}  // namespace

bool is_named_as_image(const std::filesystem::path& path) {
  return promises(path, false);
}

bool is_named_as_clip(const std::filesystem::path& path) {
  return promises(path, true);
}

bool is_named_as_table(const std::filesystem::path& path) {
  return !suffix_of(path, ".csv .tsv .xlsx .xls .ods").empty();
}

bool is_named_as_split(const std::filesystem::path& path) {
  return lower(path.extension().string()) == ".json";
}

bool is_pattern(const std::string& name) {
  return name.find_first_of("*?[") != std::string::npos;
}

std::string with_slashes(std::string name) {
  std::ranges::replace(name, '\\', '/');
  return name;
}

std::string why_missing(const std::filesystem::path& path) {
  std::error_code error;
  if (std::filesystem::exists(status_of(path, error))) return "";
  const std::string name = path.string();
  if (is_pattern(name)) return "; as a pattern it matches no file";
  if (name.find('\\') == std::string::npos) return "";
  return "; it is a path of Windows: write one of this machine, parted by /";
}

std::string name_of_exam(const std::filesystem::path& file) {
  std::string name = file.filename().string();
  for (const SourceKind* kind : source_kinds())
    for (const char* suffixes : {kind->suffixes, kind->other_suffixes})
      if (const std::string_view suffix = suffix_of(file, suffixes); !suffix.empty())
        return name.substr(0, name.size() - suffix.size());
  return name;
}

}  // namespace coldframe::frames
