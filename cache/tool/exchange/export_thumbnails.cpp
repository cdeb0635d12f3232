#include "cache/tool/exchange/export_thumbnails.h"

#include "common/cli/error.h"
#include "common/files/exam_files.h"

namespace coldframe::cache::tool {

namespace fs = std::filesystem;

fs::path thumbnail_path(std::size_t place, const std::string& exam, std::size_t slot) {
  return fs::path(exam_folder_name(place, exam)) / frame_file_name(slot, ".jpg");
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
      if (!files[slot].empty())
        write_exam_file(folder / thumbnail_path(place, id, slot), files[slot]);
  }
}

void require_thumbnails(const fs::path& folder) {
  require_exam_files(folder, {".jpg"}, "exported thumbnail");
}

}  // namespace coldframe::cache::tool
