#include "train_temporal/run/apply/same_features.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// Image files alone may be turned by their EXIF data.
bool may_hold_image_files(const SequenceReader& cache) {
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

// The part of a recipe that made one of several streams, which may be the same for all.
Json of_stream(const Json& features, const std::string& stream) {
  const Json streams = features.value(kRecipesOfStreams, Json::object());
  return streams.contains(stream) ? streams[stream] : features;
}

// `what`: the cache, or its stream, as errors name it.
void require_same(const Json& trained, const Json& found, const SequenceReader& cache,
                  const std::string& what) {
  if (trained == found) return;
  if (without_exif(trained) == without_exif(found)) {
    if (!may_hold_image_files(cache)) return;
    const bool turned = without_exif(found) != found;
    throw CacheError(concat(
        what, " holds JPEG images ",
        turned ? "turned upright as their EXIF data state, the run was trained on images as they "
                 "are stored"
               : "as they are stored, the run was trained on images turned upright as their EXIF "
                 "data state",
        "; extract these exams ", turned ? "with" : "without",
        " --ignore-exif into another cache"));
  }
  const auto changes = cache::differences(found, trained, {"cache has", "the run"});
  throw CacheError(concat(what, " was made by another recipe than the run's:\n  ",
                          join(changes, "\n  "), "\nextract these exams with the run's recipe"));
}

}  // namespace

void require_same_features(const cache::Recipe& trained, const SequenceReader& cache,
                           const std::filesystem::path& path) {
  const Json& found = cache.recipe().features;
  const std::string name = concat("'", path.string(), "'");
  if (cache.streams().empty()) return require_same(trained.features, found, cache, name);
  for (const std::string& stream : cache.streams())
    require_same(of_stream(trained.features, stream), of_stream(found, stream), cache,
                 concat("the stream ", stream, " of ", name));
}

}  // namespace coldframe::temporal
