// The features that a trained model sees: the cache's own, or those that the ViT trained with it
// makes of the cache's cut.
#pragma once

#include <memory>

#include "train_temporal/data/feature_source.h"
#include "train_temporal/models/model_file.h"

namespace coldframe::temporal {

// `dataset`: loaded from a cache that has what the model needs. It must live on. DataError for a
// backbone that is not there or not the one that was trained with the model.
std::shared_ptr<FeatureSource> features_for(const TrainedModel& trained, const Dataset& dataset);

}  // namespace coldframe::temporal
