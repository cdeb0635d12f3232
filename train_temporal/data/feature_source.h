// A fit's features lie in memory, are read from the cache as they are wanted, or come from a ViT
// that is trained with the model: the same loops serve all three.
#pragma once

#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "train_temporal/data/batcher.h"
#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {

class FeatureSource {
 public:
  // Names the view of the dataset that is wanted of an exam. It is called on another thread too.
  using ViewOf = std::function<std::size_t(std::size_t exam)>;
  using Groups = std::vector<std::vector<std::size_t>>;

  virtual ~FeatureSource() = default;

  // Batches are made from this: the features at hand. It stays the same object.
  virtual const Dataset& window() const = 0;
  // True where the window has every exam in one view alone, the planned one, as its only view.
  virtual bool one_view() const = 0;
  // Counts the exams that evaluation had best take in a group.
  virtual std::size_t exams_at_once() const = 0;

  // next() will have these groups of exams at hand, one after another, each exam in one view. What
  // was planned before is dropped.
  virtual void plan(Groups groups, ViewOf view_of) = 0;
  void plan(Groups groups) {
    plan(std::move(groups), [](std::size_t) { return std::size_t{0}; });  // clean
  }
  virtual void next() = 0;

  // Fills the window with the features of all exams at hand, for evaluation.
  virtual void evaluate() {}
  // Fills the window with the features that `items` use, and runs `body`, which takes the loss back
  // to them, as far as they ask for a gradient: from there it goes on to what made them. Where they
  // may go in turn, `body` may be given one part of them after another.
  using Body = std::function<void(std::span<const BatchItem>)>;
  virtual void train(std::span<const BatchItem> items, bool in_turn, std::uint64_t epoch,
                     const Body& body) {
    (void)in_turn, (void)epoch;
    body(items);
  }
};

// Features that lie in memory, of all exams and views.
class LoadedFeatures final : public FeatureSource {
 public:
  explicit LoadedFeatures(const Dataset& dataset) : dataset_(dataset) {}

  const Dataset& window() const override { return dataset_; }
  bool one_view() const override { return false; }
  std::size_t exams_at_once() const override { return std::numeric_limits<std::size_t>::max(); }
  using FeatureSource::plan;
  void plan(Groups, ViewOf) override {}
  void next() override {}

 private:
  const Dataset& dataset_;
};

// `exams` in groups of `size`.
FeatureSource::Groups in_groups(const std::vector<std::size_t>& exams, std::size_t size);

}  // namespace coldframe::temporal
