// What follows the decoders: each device computes what the queue gives, and the features of all of
// them become exams and go to the writer.
#pragma once

#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "cache/write/writer.h"
#include "common/cli/progress.h"
#include "extract/options/options.h"
#include "extract/pipeline/batch.h"
#include "extract/pipeline/decode/decoded.h"
#include "extract/pipeline/exam_assembly.h"
#include "extract/pipeline/pipeline.h"
#include "extract/pipeline/write_stage.h"

namespace coldframe::extract {

// Gathers the features of all devices. Its functions may be called by several threads.
class FeatureSink {
 public:
  FeatureSink(std::size_t tasks, const vit::Backbone& backbone, cache::ShardWriter& writer,
              const ExtractOptions& options);

  void add_pixels(const DecodedFrame& frame);
  void add_feature(const FramePlace& place, std::span<const float> row);
  void add_exam(DecodedExam&& exam);
  void tell_rate();          // to people; not for every frame
  std::size_t unfinished();  // exams of which memory holds a part

  double seconds() const;
  PipelineResult finish();  // after all devices are done

 private:
  std::optional<Finished> take(DecodedExam&& exam);
  std::optional<Finished> take(ExamAssembly::Whole&& exam);  // under the mutex
  // Not under the mutex: where the disk is slow it waits, and nobody else.
  void write(std::optional<Finished>&& finished);

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  const std::shared_ptr<StageTimes> times_;  // may be null
  std::mutex mutex_;
  Progress progress_;
  WriteStage output_;
  ExamAssembly assembly_;
  bool keeps_pixels_;
  std::size_t frames_ = 0, computed_ = 0;  // of exams that are whole; of all
  std::size_t partly_finite_ = 0;          // frames, as DecodedExam has them
  std::size_t unchanged_ = 0;              // exams
};

struct DeviceResult {
  BatchCounts counts;
  std::string batch;
};

// Computes on one device what the queue gives, until it ends; rethrows what it failed with.
DeviceResult compute(const ComputeDevice& device, const ExtractOptions& options,
                     DecodedQueue& queue, FeatureSink& sink);

}  // namespace coldframe::extract
