#include "extract/pipeline.h"

#include <chrono>

#include "common/interrupt.h"
#include "common/progress.h"
#include "common/text.h"
#include "extract/batch.h"
#include "extract/decode_stage.h"
#include "extract/exam_assembly.h"
#include "extract/write_stage.h"

namespace coldframe {
namespace {

// Frames that decoders may be ahead of an automatic batch: half of this.
constexpr std::int64_t kAutoBatch = 64;

DecodeSettings decode_settings(const ExtractOptions& options) {
  DecodeSettings settings;
  settings.preprocessing = options.preprocessing;
  settings.selection = options.selection;
  settings.reader = options.reader;
  settings.augmentation = options.augmentation;
  settings.thumbnails = options.thumbnails;
  settings.threads = options.decode_threads;
  const std::int64_t batch = options.batch.batch > 0 ? options.batch.batch : kAutoBatch;
  settings.queue_frames = static_cast<std::size_t>(2 * batch);
  return settings;
}

}  // namespace

PipelineResult run_pipeline(const frames::ExamList& input, std::span<const ExamTask> tasks,
                            const ExtractOptions& options, vit::Backbone& backbone,
                            const torch::Device& device, cache::ShardWriter& writer) {
  const auto started = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  };

  PipelineResult result;
  result.views = 1 + options.augmentation.views;
  Progress progress("extract", "exams", tasks.size());
  WriteStage output(writer, options.strict);
  const auto release = [&](Finished&& finished) {
    if (const auto* exam = std::get_if<cache::ExamFeatures>(&finished))
      result.frames += exam->info.frames();
    output.push(std::move(finished));
    progress.add();
  };
  ExamAssembly assembly(backbone.dimension(), release, augment::view_names(options.augmentation));
  Batch batch(backbone, device, options.preprocessing, options.batch,
              [&](const FramePlace& place, std::span<const float> feature) {
                assembly.add_feature(place, feature);
              });
  DecodeStage decoder(input, tasks, decode_settings(options));

  while (auto decoded = decoder.next()) {
    if (const auto* frame = std::get_if<DecodedFrame>(&*decoded)) {
      batch.add(*frame);
      progress.set_note(
          concat(fixed(static_cast<double>(batch.counts().frames) / seconds(), 1), " frames/s"));
    } else {
      auto& exam = std::get<DecodedExam>(*decoded);
      if (exam.failure)
        assembly.add_failure(exam.task, std::move(*exam.failure));
      else
        assembly.add_exam(exam.task, std::move(exam.info), std::move(exam.thumbnails));
    }
  }
  batch.compute();
  progress.finish();

  WriteCounts counts = output.finish();
  result.exams = counts.exams;
  result.failures = std::move(counts.failures);
  result.stopped = stop_requested() && result.exams + result.failures.size() < tasks.size();
  result.seconds = seconds();
  result.compute_s = batch.counts().compute_s;
  result.repeated = static_cast<std::size_t>(batch.counts().repeated);
  result.batch = batch.learnt();
  result.peak_device_bytes = batch.counts().peak;
  return result;
}

}  // namespace coldframe
