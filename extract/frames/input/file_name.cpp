#include "extract/frames/input/file_name.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <system_error>

#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

using Suffixes = std::span<const std::string_view>;

constexpr std::array<std::string_view, 13> kImages{".jpg",  ".jpeg", ".png", ".bmp", ".tif",
                                                   ".tiff", ".webp", ".pgm", ".ppm", ".pnm",
                                                   ".jp2",  ".j2k",  ".j2c"};
constexpr std::array<std::string_view, 10> kClips{".mp4", ".mov",  ".avi", ".mpg", ".mpeg",
                                                  ".mkv", ".webm", ".wmv", ".m4v", ".gif"};
constexpr std::array<std::string_view, 5> kTables{".csv", ".tsv", ".xlsx", ".xls", ".ods"};
// These may have ".gz" behind them.
constexpr std::array<std::string_view, 3> kVolumes{".nii", ".hdr", ".img"};
constexpr std::array<std::string_view, 16> kOthers{
    ".npy", ".dcm", ".dicom", ".ima",  ".apng", ".ogg", ".ogv", ".asf",
    ".flv", ".ts",  ".mts",   ".m2ts", ".vob",  ".m2v", ".3gp", ".qt"};

bool is_among(Suffixes suffixes, const std::filesystem::path& path) {
  const std::string suffix = lower(path.extension().string());
  return std::find(suffixes.begin(), suffixes.end(), suffix) != suffixes.end();
}

}  // namespace

bool is_named_as_image(const std::filesystem::path& path) {
  return is_among(kImages, path);
}

bool is_named_as_clip(const std::filesystem::path& path) {
  return is_among(kClips, path);
}

bool is_named_as_table(const std::filesystem::path& path) {
  return is_among(kTables, path);
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
  if (lower(file.extension().string()) == ".gz" && is_among(kVolumes, file.stem()))
    return file.stem().stem().string();
  for (const Suffixes suffixes :
       {Suffixes(kImages), Suffixes(kClips), Suffixes(kVolumes), Suffixes(kOthers)}) {
    if (is_among(suffixes, file)) return file.stem().string();
  }
  return file.filename().string();
}

}  // namespace coldframe::frames
