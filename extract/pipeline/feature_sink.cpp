#include "extract/pipeline/feature_sink.h"

#include <utility>

#include "common/text/text.h"
#include "extract/plan/recipe.h"

namespace coldframe::extract {
namespace {

// Exams that may wait for the disk. With a cut each may have some hundred megabytes.
constexpr std::size_t kWaiting = 64, kWaitingWithCut = 1;
constexpr std::chrono::milliseconds kBetweenRates(100);

}  // namespace

FeatureSink::FeatureSink(std::size_t tasks, const vit::Backbone& backbone,
                         cache::ShardWriter& writer, const ExtractOptions& options)
    : times_(options.backbone.times),
      progress_("extract", "exams", tasks),
      output_(writer, options.strict, options.cut ? kWaitingWithCut : kWaiting),
      assembly_(backbone.dimension(), augment::view_names(options.augmentation),
                cut_of(options, backbone)),
      keeps_pixels_(options.cut == 0) {}

void FeatureSink::add_pixels(const DecodedFrame& frame) {
  if (!keeps_pixels_) return;
  const auto pixels = std::as_bytes(std::span(frame.pixels));
  std::vector<std::byte> stored(pixels.begin(), pixels.end());
  const std::lock_guard lock(mutex_);
  assembly_.add_pixels(frame.place, std::move(stored));
}

void FeatureSink::add_feature(const FramePlace& place, std::span<const float> row) {
  std::vector<std::byte> tokens = assembly_.stored_tokens(row);
  std::optional<Finished> finished;
  {
    const std::lock_guard lock(mutex_);
    if (computed_++ == 0 && times_) times_->add("first_batch", seconds());
    finished = take(assembly_.add_feature(place, row, std::move(tokens)));
  }
  write(std::move(finished));
}

// Lost frames are pushed before anybody can complete their exam.
void FeatureSink::add_exam(DecodedExam&& exam) {
  for (LostFrames& lost : exam.lost) output_.push_lost(std::move(lost), !exam.as_before);
  write(take(std::move(exam)));
}

std::optional<Finished> FeatureSink::take(DecodedExam&& exam) {
  const std::lock_guard lock(mutex_);
  if (exam.as_before) {
    assembly_.drop(exam.task);
    ++unchanged_;
    progress_.add();
    return {};
  }
  if (exam.failure) {
    assembly_.drop(exam.task);
    return std::move(*exam.failure);
  }
  partly_finite_ += exam.partly_finite;
  return take(assembly_.add_exam(exam.task, std::move(exam.info), std::move(exam.thumbnails)));
}

void FeatureSink::tell_rate() {
  const std::lock_guard lock(mutex_);
  progress_.set_note(concat(fixed(static_cast<double>(computed_) / seconds(), 1), " frames/s"));
}

std::size_t FeatureSink::unfinished() {
  const std::lock_guard lock(mutex_);
  return assembly_.unfinished();
}

double FeatureSink::seconds() const {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - started_).count();
}

PipelineResult FeatureSink::finish() {
  progress_.finish();
  WriteCounts counts = output_.finish();
  PipelineResult result;
  result.exams = counts.exams;
  result.frames = frames_;
  result.failures = std::move(counts.failures);
  result.lost = std::move(counts.lost);
  result.unchanged = unchanged_;
  result.partly_finite = partly_finite_;
  return result;
}

std::optional<Finished> FeatureSink::take(ExamAssembly::Whole&& exam) {
  if (!exam) return {};
  frames_ += exam->info.frames();
  return std::move(*exam);
}

void FeatureSink::write(std::optional<Finished>&& finished) {
  if (!finished) return;
  output_.push(std::move(*finished));
  const std::lock_guard lock(mutex_);
  progress_.add();
}

DeviceResult compute(const ComputeDevice& device, const ExtractOptions& options,
                     DecodedQueue& queue, FeatureSink& sink) {
  using Clock = std::chrono::steady_clock;
  BackboneBatch batch(
      *device.backbone, device.device, options.preprocessing, options.batch,
      [&](const FramePlace& place, std::span<const float> row) { sink.add_feature(place, row); });
  queue.deepen(static_cast<std::size_t>(batch.size()));
  auto told = Clock::now();
  while (auto decoded = queue.pop()) {
    if (auto* frame = std::get_if<DecodedFrame>(&*decoded)) {
      sink.add_pixels(*frame);
      batch.add(std::move(*frame));
      if (auto used = batch.take_used(); !used.empty()) {
        queue.recycle(std::move(used));
        queue.deepen(static_cast<std::size_t>(batch.size()));
      }
      if (const auto now = Clock::now(); now - told >= kBetweenRates) {
        sink.tell_rate();
        told = now;
      }
    } else {
      sink.add_exam(std::move(std::get<DecodedExam>(*decoded)));
    }
  }
  batch.compute();
  sink.tell_rate();
  return {batch.counts(), batch.learnt()};
}

}  // namespace coldframe::extract
