// Puts exams together again from features that come out of mixed batches, and releases them in
// order.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "cache/exam.h"

namespace coldframe {

using Finished = std::variant<cache::ExamFeatures, cache::Failure>;

class ExamAssembly {
 public:
  ExamAssembly(std::int64_t dimension, std::function<void(Finished&&)> release);

  void add_feature(std::size_t task, std::size_t slot, std::span<const float> feature);
  void add_exam(std::size_t task, cache::ExamInfo info);       // after its last frame was decoded
  void add_failure(std::size_t task, cache::Failure failure);  // its features so far are dropped
  void release_rest();  // after a stop: complete exams go out although earlier ones never came

 private:
  struct Pending {
    std::map<std::size_t, std::vector<float>> features;  // by slot
    std::optional<cache::ExamInfo> info;
    std::optional<cache::Failure> failure;
    std::size_t expected = 0;  // present slots, once `info` is there

    bool complete() const { return failure || (info && features.size() == expected); }
  };
  void release_in_order();
  void release(Pending&& pending);

  std::int64_t dimension_;
  std::function<void(Finished&&)> release_;
  std::map<std::size_t, Pending> pending_;  // by task
  std::size_t next_ = 0;                    // the task that is released next
};

}  // namespace coldframe
