#include "train_temporal/run/apply/model_features.h"

#include "train_temporal/training/tuned/tuned_features.h"

namespace coldframe::temporal {
namespace {

tune::TuneOptions within_budget() {
  tune::TuneOptions options;
  options.budget = 1ull << 30;  // more makes it no faster
  return options;
}

// The ViT of a trained model, with the features that it makes.
class OwnFeatures final : public FeatureSource {
 public:
  OwnFeatures(const TrainedModel& trained, const Dataset& dataset)
      : source_(trained.card.recipe.features, dataset.cache->cut()->block,
                backbone_folder(trained.file), trained.card.tuned->weights_sha256),
        vit_(source_, within_budget(), 0, dataset.device),
        features_(dataset, vit_, {}) {}

  const Dataset& window() const override { return features_.window(); }
  bool one_view() const override { return features_.one_view(); }
  std::size_t exams_at_once() const override { return features_.exams_at_once(); }
  using FeatureSource::plan;
  void plan(Groups groups, ViewOf view_of) override {
    features_.plan(std::move(groups), std::move(view_of));
  }
  void next() override { features_.next(); }
  void evaluate() override { features_.evaluate(); }

 private:
  tune::TunedSource source_;
  tune::TunedVit vit_;
  TunedFeatures features_;
};

}  // namespace

std::shared_ptr<FeatureSource> features_for(const TrainedModel& trained, const Dataset& dataset) {
  if (trained.card.tuned) return std::make_shared<OwnFeatures>(trained, dataset);
  return source_of(dataset);
}

}  // namespace coldframe::temporal
