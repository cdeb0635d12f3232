// Features of a ViT that is trained with the model: they are computed from the cache's cut as they
// are wanted, and what flows back to them goes on into the ViT.
#pragma once

#include "train_temporal/data/feature_source.h"
#include "train_temporal/fit/tune/tuned_vit.h"

namespace coldframe::temporal {

// A cut is some two hundred times larger than the features: evaluation holds few exams at a time.
inline constexpr std::size_t kTunedExamsAtOnce = 8;

class TunedFeatures final : public FeatureSource {
 public:
  struct Options {
    double dropout = 0;  // of the ViT in training
    std::uint64_t seed = 0;
    std::uint64_t ahead = 0;  // bytes, as FeatureStream has it
  };
  // `dataset`: loaded from a cut cache. Both must live on.
  TunedFeatures(const Dataset& dataset, tune::TunedVit& vit, const Options& options);

  const Dataset& window() const override { return window_; }
  bool one_view() const override { return true; }
  std::size_t exams_at_once() const override;
  using FeatureSource::plan;
  void plan(Groups groups, ViewOf view_of) override;
  void next() override;
  void evaluate() override;
  void train(std::span<const BatchItem> items, bool in_turn, std::uint64_t epoch,
             const Body& body) override;

 private:
  struct UsedRows {
    std::vector<std::int64_t> rows;   // of the window
    std::vector<std::uint64_t> keys;  // of exam and frame
  };
  UsedRows used_by(std::span<const BatchItem> items) const;
  std::size_t items_at_once(std::span<const BatchItem> items);
  void step(std::span<const BatchItem> items, std::uint64_t epoch, const Body& body);

  FeatureStream cut_;
  tune::TunedVit& vit_;
  Options options_;
  Dataset window_;
};

}  // namespace coldframe::temporal
