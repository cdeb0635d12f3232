#include "train_temporal/run/apply/same_features.h"

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// The part of a recipe that made one of several streams, which may be the same for all.
Json of_stream(const Json& features, const std::string& stream) {
  const Json streams = features.value(kRecipesOfStreams, Json::object());
  return streams.contains(stream) ? streams[stream] : features;
}

// `what`: the cache, or its stream, as errors name it.
void require_same(const Json& trained, const Json& found, const std::string& what) {
  if (trained == found) return;
  const auto changes = cache::differences(found, trained, {"cache has", "the run"});
  throw CacheError(concat(what, " was made by another recipe than the run's:\n  ",
                          join(changes, "\n  "), "\nextract these exams with the run's recipe"));
}

}  // namespace

void require_same_features(const cache::Recipe& trained, const SequenceReader& cache,
                           const std::filesystem::path& path) {
  const Json& found = cache.recipe().features;
  const std::string name = concat("'", path.string(), "'");
  if (cache.streams().empty()) return require_same(trained.features, found, name);
  for (const std::string& stream : cache.streams())
    require_same(of_stream(trained.features, stream), of_stream(found, stream),
                 concat("the stream ", stream, " of ", name));
}

}  // namespace coldframe::temporal
