#include "cache/tool/exchange/export_thumbnails.h"

#include <algorithm>
#include <cstdio>
#include <fstream>

#include "common/cli/error.h"
#include "common/files/atomic_file.h"
#include "common/files/scratch_folder.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kLongestName = 60;

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
  return fs::path(padded(place, 6) + "-" + name) / (padded(slot, 3) + ".jpg");
}

std::size_t export_thumbnails(const CacheReader& cache, const std::vector<std::size_t>& exams,
                              const fs::path& folder) {
  if (!cache.recipe().has_thumbnails())
    throw ConfigError(
        "--thumbnails: the cache has none; `coldframe extract --thumbnails` stores them");
  const fs::path parent = fs::absolute(folder).parent_path();
  const ScratchFolder unfinished(parent);
  const fs::path content = unfinished.path() / "content";
  fs::create_directory(content);
  std::size_t written = 0;
  for (std::size_t place = 0; place < exams.size(); ++place) {
    const std::vector<std::string> files = cache.thumbnails(exams[place]);
    const std::string& id = cache.exams()[exams[place]].id;
    fs::create_directory(content / thumbnail_path(place, id, 0).parent_path());
    for (std::size_t slot = 0; slot < files.size(); ++slot) {
      if (files[slot].empty()) continue;
      write_file(content / thumbnail_path(place, id, slot), files[slot]);
      ++written;
    }
  }
  fs::remove_all(folder);  // one that is to be replaced
  rename_durably(content, folder);
  return written;
}

}  // namespace coldframe::cache::tool
