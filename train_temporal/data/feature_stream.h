// Rows that stay in the cache, a frame's features or its cut: read a few groups of exams ahead of
// whoever computes or, where memory is limited to little more than a group, just in time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/threads/bounded_queue.h"
#include "train_temporal/data/feature_source.h"
#include "train_temporal/data/stored_rows.h"

namespace coldframe::temporal {

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
