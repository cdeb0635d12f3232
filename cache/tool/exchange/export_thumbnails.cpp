#include "cache/tool/exchange/export_thumbnails.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 60;
constexpr int kPlaceDigits = 6;

bool may_be_in_a_name(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '.' ||
         c == '-' || c == '_';
}

std::string padded(std::size_t number, int digits) {
  char text[32];
  std::snprintf(text, sizeof text, "%0*zu", digits, number);
  return text;
}

void write_file(const fs::path& path, const std::string& bytes) {
  std::ofstream file(path, std::ios::binary);
  file << bytes;
  file.close();
  if (!file)
    throw SystemError(concat("cannot write '", path.string(), "'; check that the disk has room"));
}

}  // namespace

fs::path thumbnail_path(std::size_t place, const std::string& exam, std::size_t slot) {
  std::string name = exam.substr(0, kLongestName);
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !may_be_in_a_name(c); }, '_');
  return fs::path(padded(place, kPlaceDigits) + "-" + name) / (padded(slot, 3) + ".jpg");
}

void write_thumbnails(const CacheReader& cache, const std::vector<std::size_t>& exams,
                      const fs::path& folder) {
  if (!cache.recipe().has_thumbnails())
    throw ConfigError(
        "--thumbnails: the cache has none; `coldframe extract --thumbnails` stores them");
  fs::create_directory(folder);
  for (std::size_t place = 0; place < exams.size(); ++place) {
    const std::vector<std::string> files = cache.thumbnails(exams[place]);
    const std::string& id = cache.exams()[exams[place]].id;
    fs::create_directory(folder / thumbnail_path(place, id, 0).parent_path());
    for (std::size_t slot = 0; slot < files.size(); ++slot)
      if (!files[slot].empty()) write_file(folder / thumbnail_path(place, id, slot), files[slot]);
  }
}

void require_thumbnails(const fs::path& folder) {
  const auto is_of_exam = [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return entry.is_directory() && name.size() > kPlaceDigits && name[kPlaceDigits] == '-' &&
           std::all_of(name.begin(), name.begin() + kPlaceDigits,
                       [](char c) { return c >= '0' && c <= '9'; });
  };
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const bool is_image = entry.is_regular_file() && entry.path().extension() == ".jpg" &&
                          entry.path().parent_path().parent_path() == folder;
    if (is_image || is_of_exam(entry)) continue;
    throw ConfigError(concat("--overwrite would remove '", entry.path().string(),
                             "', which is no exported thumbnail; move it away, or choose another "
                             "name"));
  }
}

}  // namespace coldframe::cache::tool
