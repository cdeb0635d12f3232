// A fit's features are in memory, are streamed from the cache, or come from a ViT that is trained
// with the model. The same training loops serve all three.
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
  // Returns the index of the view to use for an exam. Also called on another thread.
  using ViewOf = std::function<std::size_t(std::size_t exam)>;
  using Groups = std::vector<std::vector<std::size_t>>;

  virtual ~FeatureSource() = default;

  // The features currently loaded, from which batches are made. Always the same object.
  virtual const Dataset& window() const = 0;
  // True if the window holds each exam in a single view, the planned one, as the window's only
  // view.
  virtual bool one_view() const = 0;
  // The preferred number of exams per group in evaluation.
  virtual std::size_t exams_at_once() const = 0;

  // Sets the groups of exams that successive calls of next() load, each exam in one view. Replaces
  // any earlier plan.
  virtual void plan(Groups groups, ViewOf view_of) = 0;
  void plan(Groups groups) {
    plan(std::move(groups), [](std::size_t) { return std::size_t{0}; });  // clean
  }
  virtual void next() = 0;

  // Fills the window with the features of all exams of the current group, for evaluation.
  virtual void evaluate() {}
  // Fills the window with the features that `items` use and runs `body`, whose backward pass leaves
  // gradients in the window if its features require them; the source then backpropagates these.
  // With `in_turn` (micro-batching allowed), `body` may be called with one part of `items` after
  // another.
  using Body = std::function<void(std::span<const BatchItem>)>;
  virtual void train(std::span<const BatchItem> items, bool in_turn, std::uint64_t epoch,
                     const Body& body) {
    (void)in_turn, (void)epoch;
    body(items);
  }
};

// Features of all exams and views, in memory.
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

// Divides `exams` into groups of `size`.
FeatureSource::Groups in_groups(const std::vector<std::size_t>& exams, std::size_t size);

// Streams rows (a frame's features or its cut) from the cache: it prefetches a few groups of exams
// or, if memory holds little more than one group, reads each group when it is needed.

class FeatureStream final : public FeatureSource {
 public:
  // `dataset`: loaded from a cache; must outlive this. The window's features are rows of `kind`,
  // [rows, …] as stored. `ahead`: max bytes for prefetching, the current group included; 0: half of
  // the free memory.
  explicit FeatureStream(const Dataset& dataset, RowKind kind = RowKind::kFeatures,
                         std::uint64_t ahead = 0);
  ~FeatureStream() override;
  FeatureStream(const FeatureStream&) = delete;
  FeatureStream& operator=(const FeatureStream&) = delete;

  // Holds the sequences of the current group only.
  const Dataset& window() const override { return window_; }
  const std::vector<std::size_t>& exams_at_hand() const { return at_hand_; }
  bool one_view() const override { return true; }
  std::size_t exams_at_once() const override;
  using FeatureSource::plan;
  void plan(Groups groups, ViewOf view_of) override;
  // Waits for the next group. Throws DataError and CacheError as load_dataset() does.
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
  std::size_t next_ = 0;  // index into groups_ if nothing is prefetched
  std::optional<BoundedQueue<Group>> queue_;
  std::jthread reader_;
};

// The dataset's features, from memory or from its cache. `dataset` must outlive the source.
std::unique_ptr<FeatureSource> source_of(const Dataset& dataset);

// Calls visit(exam, rows) for each of `exams` in order; rows: its frames' features, [frames, D]
// float32 on the CPU, NaN where a stream has no frame.
void visit_exams(const Dataset& dataset, const std::vector<std::size_t>& exams,
                 const std::function<void(std::size_t, const torch::Tensor&)>& visit);

}  // namespace coldframe::temporal
