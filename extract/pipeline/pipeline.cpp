#include "extract/pipeline/pipeline.h"

#include <algorithm>
#include <chrono>
#include <mutex>

#include "common/cli/interrupt.h"
#include "common/cli/progress.h"
#include "common/text/text.h"
#include "common/threads/parallel.h"
#include "extract/pipeline/batch.h"
#include "extract/pipeline/decode_stage.h"
#include "extract/pipeline/exam_assembly.h"
#include "extract/pipeline/write_stage.h"
#include "extract/plan/recipe.h"

namespace coldframe::extract {
namespace {

// Frames that decoders may be ahead of an automatic batch: half of this.
constexpr std::int64_t kAutoBatch = 64;
// Exams that may wait for the disk. With a cut each may have some hundred megabytes.
constexpr std::size_t kWaiting = 64, kWaitingWithCut = 1;

DecodeSettings decode_settings(const ExtractOptions& options, std::size_t devices) {
  DecodeSettings settings;
  settings.preprocessing = options.preprocessing;
  settings.selection = options.selection;
  settings.reader = options.reader;
  settings.augmentation = options.augmentation;
  settings.thumbnails = options.thumbnails;
  settings.min_frames = options.min_frames;
  settings.threads = options.decode_threads;
  settings.stage = options.stage;
  settings.stage_bytes = options.stage_bytes;
  const std::int64_t batch = options.batch.batch > 0 ? options.batch.batch : kAutoBatch;
  settings.queue_frames = 2 * static_cast<std::size_t>(batch) * devices;
  return settings;
}

// Gathers the features of all devices. Its functions may be called by several threads.
class Gathering {
 public:
  Gathering(std::size_t tasks, const vit::Backbone& backbone, cache::ShardWriter& writer,
            const ExtractOptions& options)
      : progress_("extract", "exams", tasks),
        output_(writer, options.strict, options.cut ? kWaitingWithCut : kWaiting),
        assembly_(
            backbone.dimension(), [this](Finished&& finished) { release(std::move(finished)); },
            augment::view_names(options.augmentation), cut_of(options, backbone)),
        keeps_pixels_(options.cut == 0) {}

  void add_pixels(const DecodedFrame& frame) {
    if (!keeps_pixels_) return;
    const std::lock_guard lock(mutex_);
    assembly_.add_pixels(frame.place, frame.pixels);
  }

  void add_feature(const FramePlace& place, std::span<const float> row) {
    const std::lock_guard lock(mutex_);
    assembly_.add_feature(place, row);
    ++computed_;
  }

  void add_exam(DecodedExam&& exam) {
    const std::lock_guard lock(mutex_);
    for (LostFrames& lost : exam.lost) output_.push_lost(std::move(lost), !exam.as_before);
    if (exam.as_before) {
      ++unchanged_;
      progress_.add();
      return;
    }
    if (exam.failure) {
      assembly_.add_failure(exam.task, std::move(*exam.failure));
      return;
    }
    for (std::size_t slot = 0; slot < exam.info.frames(); ++slot)
      if (exam.info.present[slot] != 0) reused_ += exam.known.of_slot(slot);
    assembly_.add_exam(exam.task, std::move(exam.info), std::move(exam.thumbnails),
                       std::move(exam.known));
  }

  void tell_rate() {
    const std::lock_guard lock(mutex_);
    progress_.set_note(concat(fixed(static_cast<double>(computed_) / seconds(), 1), " frames/s"));
  }

  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
  }

  // After all devices are done.
  PipelineResult finish() {
    progress_.finish();
    WriteCounts counts = output_.finish();
    PipelineResult result;
    result.exams = counts.exams;
    result.frames = frames_;
    result.reused = reused_;
    result.failures = std::move(counts.failures);
    result.lost = std::move(counts.lost);
    result.unchanged = unchanged_;
    return result;
  }

 private:
  void release(Finished&& finished) {
    if (const auto* exam = std::get_if<cache::ExamFeatures>(&finished))
      frames_ += exam->info.frames();
    output_.push(std::move(finished));
    progress_.add();
  }

  const std::chrono::steady_clock::time_point started_ = std::chrono::steady_clock::now();
  std::mutex mutex_;
  Progress progress_;
  WriteStage output_;
  ExamAssembly assembly_;
  bool keeps_pixels_;
  std::size_t frames_ = 0, computed_ = 0;  // of exams that are whole; of all
  std::size_t unchanged_ = 0;              // exams
  std::size_t reused_ = 0;                 // features of another cache
};

struct DeviceResult {
  BatchCounts counts;
  std::string batch;
};

// Computes on one device, from the first frame to the last.
DeviceResult compute(const ComputeDevice& device, const ExtractOptions& options,
                     DecodeStage& decoder, Gathering& gathering) {
  BackboneBatch batch(*device.backbone, device.device, options.preprocessing, options.batch,
                      [&](const FramePlace& place, std::span<const float> row) {
                        gathering.add_feature(place, row);
                      });
  while (auto decoded = decoder.next()) {
    if (const auto* frame = std::get_if<DecodedFrame>(&*decoded)) {
      gathering.add_pixels(*frame);
      batch.add(*frame);
      gathering.tell_rate();
    } else {
      gathering.add_exam(std::move(std::get<DecodedExam>(*decoded)));
    }
  }
  batch.compute();
  return {batch.counts(), batch.learnt()};
}

// "16 frames per forward pass (auto)" where all agree, else one clause for each.
std::string join_batches(const std::vector<DeviceResult>& results) {
  std::vector<std::string> distinct;
  for (const DeviceResult& result : results)
    if (std::find(distinct.begin(), distinct.end(), result.batch) == distinct.end())
      distinct.push_back(result.batch);
  return join(distinct, " and ");
}

}  // namespace

PipelineResult run_pipeline(const frames::ExamList& input, std::span<const ExamTask> tasks,
                            const ExtractOptions& options, std::span<const ComputeDevice> devices,
                            cache::ShardWriter& writer) {
  Gathering gathering(tasks.size(), *devices.front().backbone, writer, options);
  std::vector<DeviceResult> results(devices.size());
  {
    DecodeStage decoder(input, tasks, decode_settings(options, devices.size()));
    const auto work = [&](std::size_t i) {
      try {
        results[i] = compute(devices[i], options, decoder, gathering);
      } catch (...) {
        decoder.fail(std::current_exception());  // the other devices stop, with this error
        throw;
      }
    };
    parallel_for(devices.size(), work, devices.size());
  }

  PipelineResult result = gathering.finish();
  result.views = 1 + options.augmentation.views;
  const std::size_t done = result.exams + result.failures.size() + result.unchanged;
  result.stopped = stop_requested() && done < tasks.size();
  result.seconds = gathering.seconds();
  for (const DeviceResult& device : results) {
    result.compute_s += device.counts.compute_s / static_cast<double>(devices.size());
    result.repeated += static_cast<std::size_t>(device.counts.repeated);
    result.peak_device_bytes = std::max(result.peak_device_bytes, device.counts.peak);
  }
  result.batch = join_batches(results);
  return result;
}

PipelineResult run_pipeline(const frames::ExamList& input, std::span<const ExamTask> tasks,
                            const ExtractOptions& options, vit::Backbone& backbone,
                            const torch::Device& device, cache::ShardWriter& writer) {
  const ComputeDevice one{device, &backbone};
  return run_pipeline(input, tasks, options, std::span(&one, 1), writer);
}

}  // namespace coldframe::extract
