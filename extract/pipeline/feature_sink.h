// What follows the decoders: each device computes what the queue gives, the features of all of them
// become exams, and one thread writes these, so that a slow disk does not hold up the backbone.
#pragma once

#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>

#include "cache/format/exam.h"
#include "cache/store/writer.h"
#include "common/cli/progress.h"
#include "common/threads/bounded_queue.h"
#include "extract/options/options.h"
#include "extract/pipeline/batch.h"
#include "extract/pipeline/decode/decoded.h"
#include "extract/pipeline/exam_assembly.h"
#include "extract/pipeline/pipeline.h"

namespace coldframe::extract {

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
