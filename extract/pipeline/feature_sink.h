// Puts exams together again from features that come out of mixed batches.
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

// The features of a frame's tiles are averaged as they come, so that memory holds one feature per
// frame, however many tiles it has. Whatever adds the last part of an exam gets the exam, so that a
// long one holds up no other; the exam's ordinal keeps the input's order.
class ExamAssembly {
 public:
  using Whole = std::optional<cache::ExamFeatures>;  // none: parts of the exam are to come

  // `views`: the names of those that every frame comes in, "clean" first. `cut`: what is kept of
  // every frame besides, of which there are no tiles then.
  explicit ExamAssembly(std::int64_t dimension, std::vector<std::string> views = {"clean"},
                        std::optional<cache::Cut> cut = {});

  // The tokens behind a feature as the cut stores them; {} where it is none of tokens. It may run
  // beside any other call: rounding them to float16 takes longer than all else here.
  std::vector<std::byte> stored_tokens(std::span<const float> row) const;
  // A frame's feature, with what may lie behind it, and what stored_tokens() made of the same row.
  Whole add_feature(const FramePlace& place, std::span<const float> row,
                    std::vector<std::byte>&& tokens = {});
  // A frame's pixels, before its feature, for a cut that is one of pixels.
  void add_pixels(const FramePlace& place, std::vector<std::byte>&& pixels);
  // After its last frame was decoded; `thumbnails` as ExamFeatures has them.
  Whole add_exam(std::size_t task, cache::ExamInfo info, std::vector<std::string> thumbnails = {});
  void drop(std::size_t task);  // what there is of it, and what still comes out of a batch
  std::size_t unfinished() const { return pending_.size(); }  // exams of which memory holds a part

 private:
  using Row = std::pair<std::size_t, std::size_t>;  // view, slot
  // Sums in float64: the order of tiles cannot show in the float32 mean.
  struct Pooled {
    std::vector<double> sum;
    std::size_t tiles = 0;  // that are in it
  };
  struct Pending {
    std::map<Row, Pooled> open;                  // with tiles to come
    std::vector<std::vector<float>> features;    // of each view, [slots so far, D]; NaN: none came
    std::size_t complete = 0;                    // of these rows
    std::map<Row, std::vector<std::byte>> cuts;  // as stored
    std::optional<cache::ExamInfo> info;
    std::vector<std::string> thumbnails;
    std::size_t expected = 0;  // rows of present slots to be computed, once `info` is there
  };
  cache::ExamFeatures put_together(Pending&& exam) const;
  void put_cuts(Pending& pending, cache::ExamFeatures& exam) const;
  std::span<float> row_of(Pending& exam, const Row& row) const;
  void pool(Pending& exam, const FramePlace& place, std::span<const float> feature);
  Whole take_if_complete(std::size_t task, Pending& pending);

  std::int64_t dimension_;
  std::vector<std::string> views_;
  std::optional<cache::Cut> cut_;
  std::map<std::size_t, Pending> pending_;  // by task
  std::set<std::size_t> dropped_;           // features of these may still come out of a batch
};

// What follows the decoders: each device computes what the queue gives, the features of all of them
// become exams, and one thread writes these, so that a slow disk does not hold up the backbone.

// Gathers the features of all devices. Its functions may be called by several threads, and throw
// what the writing thread ran into. With --strict the first failure, of an exam or of frames, ends
// the job instead of being recorded.
class FeatureSink {
 public:
  FeatureSink(std::size_t tasks, const vit::Backbone& backbone, cache::ShardWriter& writer,
              const ExtractOptions& options);
  ~FeatureSink();

  void add_pixels(const DecodedFrame& frame);
  void add_feature(const FramePlace& place, std::span<const float> row);
  void add_exam(DecodedExam&& exam);
  void tell_rate();          // to people; not for every frame
  std::size_t unfinished();  // exams of which memory holds a part

  double seconds() const;
  PipelineResult finish();  // after all devices are done: waits until all is handed to the writer

 private:
  struct Work {
    std::variant<cache::ExamFeatures, cache::Failure> what;
    bool is_known = false;  // a failure that the cache has already
  };
  std::optional<Work> take(DecodedExam&& exam);
  std::optional<Work> take(ExamAssembly::Whole&& exam);  // under the mutex
  // Not under the mutex: where the disk is slow it waits, and nobody else.
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
  bool keeps_pixels_;
  std::size_t computed_ = 0;  // frames
  PipelineResult result_;     // exams, failures and lost frames: of the writing thread

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

// Computes on one device what the queue gives, until it ends; rethrows what it failed with.
DeviceResult compute(const ComputeDevice& device, const ExtractOptions& options,
                     DecodedQueue& queue, FeatureSink& sink);

}  // namespace coldframe::extract
