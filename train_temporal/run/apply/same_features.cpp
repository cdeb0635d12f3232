#include "train_temporal/run/apply/same_features.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// Image files alone may be turned by their EXIF data.
bool may_hold_image_files(const cache::CacheReader& cache) {
  return std::ranges::any_of(cache.exams(), [](const cache::ExamInfo& exam) {
    return exam.source_kind.empty() || exam.source_kind.starts_with("image") ||
           exam.source_kind == "mixed";
  });
}

Json without_exif(Json features) {
  if (!features.contains("reading")) return features;
  features["reading"].erase("exif");
  if (features["reading"].empty()) features.erase("reading");
  return features;
}

bool turns_images(const cache::Recipe& recipe) {
  return without_exif(recipe.features) != recipe.features;
}

}  // namespace

void require_same_features(const cache::Recipe& trained, const cache::CacheReader& cache,
                           const std::filesystem::path& path) {
  const cache::Recipe& found = cache.recipe();
  if (trained.feature_digest() == found.feature_digest()) return;
  if (without_exif(trained.features) == without_exif(found.features)) {
    if (!may_hold_image_files(cache)) return;
    const bool turned = turns_images(found);
    throw CacheError(concat(
        "'", path.string(), "' holds JPEG images ",
        turned ? "turned upright as their EXIF data state, the run was trained on images as they "
                 "are stored"
               : "as they are stored, the run was trained on images turned upright as their EXIF "
                 "data state",
        "; extract these exams ", turned ? "with" : "without",
        " --ignore-exif into another cache"));
  }
  const auto changes =
      cache::differences(found.features, trained.features, {"cache has", "the run"});
  throw CacheError(concat("'", path.string(), "' was made by another recipe than the run's:\n  ",
                          join(changes, "\n  "), "\nextract these exams with the run's recipe"));
}

}  // namespace coldframe::temporal
