// Features to exams to shards, with the one writer thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "cache/format/exam.h"
#include "cache/format/recipe.h"
#include "cache/store/writer.h"
#include "common/cli/progress.h"
#include "common/threads/bounded_queue.h"
#include "extract/options.h"
#include "extract/pipeline/batch.h"
#include "extract/pipeline/decode_stage.h"
#include "extract/pipeline/pipeline.h"

namespace coldframe::extract {

// Reassembles exams from the features of mixed batches.

// Averages the features of a window's tiles as they arrive, so that memory holds one feature per
// row for any number of tiles. The call that completes an exam returns it, so that a long exam
// delays no other; the exam's ordinal preserves the input's order.
class ExamAssembly {
 public:
  using Whole = std::optional<cache::ExamFeatures>;  // nullopt: the exam is incomplete

  // `views`: names of the views of every window, "clean" first. `cut`: what else to keep of every
  // frame; excludes tiles and clips. `steps`: features of each window.
  explicit ExamAssembly(std::int64_t dimension, std::vector<std::string> views = {"clean"},
                        std::optional<cache::Cut> cut = {}, std::size_t steps = 1);

  // The tokens after a feature, encoded as the cut stores them; {} if the cut stores no tokens.
  // Safe to call concurrently with any other function: rounding to float16 takes longer than all
  // else here.
  std::vector<std::byte> stored_tokens(std::span<const float> row) const;
  // Adds a window's features (the row may continue after them) and stored_tokens() of the same row.
  Whole add_feature(const FeatureIndex& place, std::span<const float> row,
                    std::vector<std::byte>&& tokens = {});
  // Adds a frame's pixels, before its feature, if the cut stores pixels.
  void add_pixels(const FeatureIndex& place, std::vector<std::byte>&& pixels);
  // Call after its last frame was decoded; `thumbnails` as in ExamFeatures, `features_of_rows` as
  // in DecodedExam.
  Whole add_exam(std::size_t task, cache::ExamInfo info, std::vector<std::string> thumbnails = {},
                 std::vector<std::size_t> features_of_rows = {});
  void drop(std::size_t task);  // discards its features, present and still to arrive
  std::size_t unfinished() const { return pending_.size(); }  // exams of which memory holds a part

 private:
  using Row = std::pair<std::size_t, std::size_t>;  // view, window
  // Sums in float64, so that the float32 mean does not depend on the order of tiles.
  struct Pooled {
    std::vector<double> sum;
    std::size_t tiles = 0;  // summed so far
  };
  struct Pending {
    std::map<Row, Pooled> open;  // with tiles missing
    // Per view [windows so far, steps · D]; NaN: missing.
    std::vector<std::vector<float>> features;
    std::size_t complete = 0;                    // of these windows
    std::map<Row, std::vector<std::byte>> cuts;  // as stored
    std::optional<cache::ExamInfo> info;
    std::vector<std::string> thumbnails;
    std::vector<std::size_t> features_of_rows;
    std::size_t expected = 0;  // windows of present rows to be computed, once `info` is there
  };
  cache::ExamFeatures put_together(Pending&& exam) const;
  void put_cuts(Pending& pending, cache::ExamFeatures& exam) const;
  std::span<float> row_of(Pending& exam, const Row& row) const;
  std::size_t width() const { return steps_ * static_cast<std::size_t>(dimension_); }
  std::size_t windows_with_rows(const Pending& exam) const;
  std::vector<float> rows_in_order(const Pending& exam, std::vector<float>&& features) const;
  void pool(Pending& exam, const FeatureIndex& place, std::span<const float> feature);
  Whole take_if_complete(std::size_t task, Pending& pending);

  std::int64_t dimension_;
  std::vector<std::string> views_;
  std::optional<cache::Cut> cut_;
  std::size_t steps_;
  std::map<std::size_t, Pending> pending_;  // by task
  std::set<std::size_t> dropped_;           // their features may still arrive
};

// The stages after the decoders: each device computes frames from the queue, their features are
// assembled into exams, and one thread writes these, so that a slow disk does not stall the
// backbone.

// Collects the features of all devices. Thread-safe; its functions rethrow errors of the writing
// thread. With --strict, the first failure of an exam or of frames ends the job instead of being
// recorded.
class FeatureSink {
 public:
  FeatureSink(std::size_t tasks, const vit::Backbone& backbone, cache::ShardWriter& writer,
              const ExtractOptions& options);
  ~FeatureSink();

  void add_pixels(const DecodedWindow& window);
  void add_feature(const FeatureIndex& place, std::span<const float> row);
  void add_exam(DecodedExam&& exam);
  void tell_rate();          // logs progress; not for every frame
  std::size_t unfinished();  // exams of which memory holds a part

  double seconds() const;
  PipelineResult finish();  // after all devices: waits until all is passed to the writer

 private:
  struct Work {
    std::variant<cache::ExamFeatures, cache::Failure> what;
    bool is_known = false;  // a failure that is already in the cache
  };
  std::optional<Work> take(DecodedExam&& exam);
  std::optional<Work> take(ExamAssembly::Whole&& exam);  // under the mutex
  // Not under the mutex: on a slow disk only the caller waits.
  void push(Work&& work);
  void push_exam(std::optional<Work>&& work);
  void end_writing();
  // The writing thread.
  void write_all();
  void write(cache::ExamFeatures&& exam);
  void record(cache::Failure&& failure, bool is_known);

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const std::shared_ptr<StageTimes> times_;  // may be null
  std::mutex mutex_;
  Progress progress_;
  ExamAssembly assembly_;
  preprocess::Size3 map_;  // as Backbone::map()
  bool keeps_pixels_;
  std::string row_name_;      // of lost ones
  std::string input_name_;    // of computed ones
  std::size_t computed_ = 0;  // windows
  PipelineResult result_;     // exams, failures and lost frames: owned by the writing thread

  cache::ShardWriter& writer_;
  bool strict_, stop_seen_ = false;
  BoundedQueue<Work> queue_;
  std::exception_ptr error_;  // set by the thread before it closes the queue
  std::mutex joining_;
  std::jthread thread_;
};

struct DeviceResult {
  BatchCounts counts;
  std::string batch;
};

// Computes frames from the queue on one device until it closes; rethrows the queue's error.
DeviceResult compute(const ComputeDevice& device, const ExtractOptions& options,
                     DecodedQueue& queue, FeatureSink& sink);

}  // namespace coldframe::extract
