// Features that stay in the cache: read a few groups of exams ahead of whoever computes or, where
// memory is limited to little more than a group, just in time.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "common/threads/bounded_queue.h"
#include "train_temporal/data/dataset.h"

namespace coldframe::temporal {

class FeatureStream {
 public:
  // `dataset`: one whose features are in its cache.
  explicit FeatureStream(const Dataset& dataset);
  ~FeatureStream();
  FeatureStream(const FeatureStream&) = delete;
  FeatureStream& operator=(const FeatureStream&) = delete;

  // Names the view of the dataset to read of an exam. It is called on another thread too.
  using ViewOf = std::function<std::size_t(std::size_t exam)>;

  // Begins to read: next() will deliver these groups of exams one after another, each exam in one
  // view. What was planned before is dropped.
  void plan(
      std::vector<std::vector<std::size_t>> groups, ViewOf view_of = [](std::size_t) {
        return std::size_t{0};  // clean
      });
  // Waits for the next group. DataError and CacheError as load_dataset().
  void next();

  // The dataset with the features of the group alone, in its only view whichever was read. It stays
  // the same object.
  const Dataset& window() const { return window_; }

 private:
  struct Group {
    std::vector<std::size_t> exams;
    std::vector<std::int64_t> first_rows;
    torch::Tensor features;
  };
  void stop();
  bool may_read_ahead() const;
  Group read(const std::vector<std::size_t>& exams) const;

  Dataset window_;
  std::vector<std::string> views_;  // of the dataset
  ViewOf view_of_;
  std::vector<std::vector<std::size_t>> groups_;
  std::size_t next_ = 0;  // of groups_, where none is read ahead
  std::optional<BoundedQueue<Group>> queue_;
  std::jthread reader_;
};

// `exams` in groups of `size`.
std::vector<std::vector<std::size_t>> in_groups(const std::vector<std::size_t>& exams,
                                                std::size_t size);

}  // namespace coldframe::temporal
