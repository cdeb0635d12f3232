#include "extract/pipeline/pipeline.h"

#include <algorithm>

#include "common/cli/interrupt.h"
#include "common/text/text.h"
#include "common/threads/parallel.h"
#include "extract/pipeline/decode/decode_stage.h"
#include "extract/pipeline/feature_sink.h"

namespace coldframe::extract {
namespace {

DecodeSettings decode_settings(const ExtractOptions& options) {
  DecodeSettings settings;
  settings.preprocessing = options.preprocessing;
  settings.selection = options.selection;
  settings.reader = options.reader;
  settings.augmentation = options.augmentation;
  settings.thumbnails = options.thumbnails;
  settings.min_frames = options.min_frames;
  settings.threads = decode_threads_of(options);
  return settings;
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

PipelineResult run_pipeline(const frames::ExamList& exams, const ExtractOptions& options,
                            std::span<const ComputeDevice> devices, cache::ShardWriter& writer) {
  FeatureSink sink(exams.exams.size(), *devices.front().backbone, writer, options);
  std::vector<DeviceResult> results(devices.size());
  {
    DecodedQueue queue(static_cast<std::size_t>(3 * options.preprocessing.image_size.pixels()),
                       devices.size());
    const DecodeStage decoder(exams, decode_settings(options), queue);
    const auto work = [&](std::size_t i) {
      try {
        results[i] = compute(devices[i], options, queue, sink);
      } catch (...) {
        queue.fail(std::current_exception());  // the other devices stop, with this error
        throw;
      }
    };
    parallel_for(devices.size(), work, devices.size());
  }

  PipelineResult result = sink.finish();
  result.views = 1 + options.augmentation.views;
  const std::size_t done = result.exams + result.failures.size() + result.unchanged;
  result.stopped = stop_requested() && done < exams.exams.size();
  result.seconds = sink.seconds();
  for (const DeviceResult& device : results) {
    result.compute_s += device.counts.compute_s / static_cast<double>(devices.size());
    result.repeated += static_cast<std::size_t>(device.counts.repeated);
    result.peak_device_bytes = std::max(result.peak_device_bytes, device.counts.peak);
  }
  result.batch = join_batches(results);
  return result;
}

}  // namespace coldframe::extract
