// A fit's features lie in memory, are read from the cache as they are wanted, or come from a ViT
// that is trained with the model: the same loops serve all three.
#pragma once

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "common/threads/bounded_queue.h"
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

// Rows that stay in the cache, a frame's features or its cut: read a few groups of exams ahead of
// whoever computes or, where memory is limited to little more than a group, just in time.

class FeatureStream final : public FeatureSource {
 public:
  // `dataset`: one that was loaded from a cache; it must live on. The window's features are rows of
  // that kind, [rows, …] as stored. `ahead`: bytes that reading ahead may take, the group at hand
  // included; 0: half of what memory has left.
  explicit FeatureStream(const Dataset& dataset, RowKind kind = RowKind::kFeatures,
                         std::uint64_t ahead = 0);
  ~FeatureStream() override;
  FeatureStream(const FeatureStream&) = delete;
  FeatureStream& operator=(const FeatureStream&) = delete;

  // Of the sequences, it has those of the group at hand.
  const Dataset& window() const override { return window_; }
  const std::vector<std::size_t>& exams_at_hand() const { return at_hand_; }
  bool one_view() const override { return true; }
  std::size_t exams_at_once() const override;
  using FeatureSource::plan;
  void plan(Groups groups, ViewOf view_of) override;
  // Waits for the next group. DataError and CacheError as load_dataset().
  void next() override;

 private:
  struct Group {
    std::vector<std::size_t> exams;
    std::vector<std::int64_t> first_rows;
    torch::Tensor features;
  };
  void stop();
  bool may_read_ahead() const;
  Group read(const std::vector<std::size_t>& exams) const;

  const Dataset& dataset_;
  Dataset window_;
  std::vector<std::size_t> at_hand_;
  std::vector<std::string> views_;  // of the dataset
  RowKind kind_;
  RowFormat format_;
  std::uint64_t ahead_;
  ViewOf view_of_;
  Groups groups_;
  std::size_t next_ = 0;  // of groups_, where none is read ahead
  std::optional<BoundedQueue<Group>> queue_;
  std::jthread reader_;
};

// The dataset's features, from memory or from its cache. It must live on.
std::unique_ptr<FeatureSource> source_of(const Dataset& dataset);

}  // namespace coldframe::temporal
