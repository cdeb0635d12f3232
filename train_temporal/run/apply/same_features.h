// Decides whether a model can be given the features of a cache.
#pragma once

#include <filesystem>

#include "train_temporal/data/sequence_reader.h"

namespace coldframe::temporal {

// CacheError, which lists the differences, when the cache was made by another recipe than the one
// that the model was trained on. Streams are compared one by one.
void require_same_features(const cache::Recipe& trained, const SequenceReader& cache,
                           const std::filesystem::path& path);

}  // namespace coldframe::temporal
