#include "extract/inspect/benchmark/stages.h"

#include <torch/cuda.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/threads/parallel.h"
#include "extract/frames/opened_exam.h"
#include "extract/pipeline/batch.h"
#include "extract/plan/crop_plan.h"
#include "extract/preprocess/prepared_frame.h"

namespace coldframe::extract::benchmark {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kSecondsPerStage = 4;
constexpr std::size_t kKeptFrames = 32, kKeptBytes = 256u << 20;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string threads_note(int threads) {
  return plural(static_cast<std::size_t>(threads), "thread");
}

// Repeats `turn`, which returns how many frames it did, until the time is up.
double frames_per_second(const std::function<std::size_t()>& turn) {
  turn();  // memory, code generation
  const auto started = Clock::now();
  std::size_t frames = 0;
  do {
    frames += turn();
  } while (seconds_since(started) < kSecondsPerStage && !stop_requested());
  return static_cast<double>(frames) / seconds_since(started);
}

// Keeps the first few decoded frames for the stages behind.
class Keeper {
 public:
  explicit Keeper(std::vector<DecodedSample>& frames) : frames_(frames) {}

  void offer(DecodedSample&& decoded) {
    const std::lock_guard lock(mutex_);
    if (frames_.size() == kKeptFrames || bytes_ > kKeptBytes) return;
    bytes_ += decoded.frame.pixels.rgb.size();
    frames_.push_back(std::move(decoded));
  }

 private:
  std::mutex mutex_;
  std::size_t bytes_ = 0;
  std::vector<DecodedSample>& frames_;
};

// Does with a decoded frame what a decoding thread does; returns the number of inputs.
std::size_t make_inputs(const preprocess::Preprocessing& steps, DecodedSample decoded,
                        augment::ExamViews& views, std::vector<std::uint8_t>& first) {
  std::size_t inputs = 0;
  const preprocess::PreparedFrame frame(steps, std::move(decoded.frame), decoded.crop);
  frame.make_inputs(views, [&](preprocess::Input&& input) {
    if (inputs++ == 0) first = std::move(input.pixels);
    return !stop_requested();
  });
  return inputs;
}

// Fills the inputs. A frame that cannot be prepared fails its exam in a job.
void prepare_once(const ExtractOptions& options, Sample& sample) {
  std::size_t inputs = 0;
  std::erase_if(sample.frames, [&](const DecodedSample& decoded) {
    augment::ExamViews views(options.augmentation, "");
    std::vector<std::uint8_t> first;
    try {
      inputs += make_inputs(options.preprocessing, decoded, views, first);
    } catch (const DataError& error) {
      log_warning(concat("a frame of the sample cannot be prepared: ", error.what()));
      return true;
    }
    sample.inputs.push_back(std::move(first));
    return false;
  });
  if (sample.frames.empty())
    throw DataError("not one frame of the sample can be prepared; --dry-run tells more");
  sample.inputs_per_frame = static_cast<double>(inputs) / static_cast<double>(sample.frames.size());
}

}  // namespace

StageRate measure_decode(const ExtractOptions& options, Sample& sample) {
  Keeper keeper(sample.frames);
  std::atomic<std::size_t> decoded = 0;
  const auto started = Clock::now();
  const auto time_is_up = [&] {
    return seconds_since(started) > kSecondsPerStage || stop_requested();
  };
  const auto decode = [&](std::size_t i) {
    const frames::ExamSpec& exam = sample.exams.exams[i];
    if (time_is_up() && decoded > 0) return;
    try {
      const frames::OpenedExam opened(exam, options.reader);
      const CropPlan plan(exam, opened, options.preprocessing);
      opened.read(opened.select(options.selection), [&](frames::ExamSlot&& slot) {
        if (!slot.present) return true;
        ++decoded;
        const auto crop = plan.crop_of(slot);
        keeper.offer({std::move(slot.frame), crop});
        return !time_is_up();
      });
    } catch (const DataError& error) {
      log_warning(concat("exam '", exam.id, "' of the sample cannot be read: ", error.what()));
    }
  };
  parallel_for(sample.exams.exams.size(), decode,
               static_cast<std::size_t>(decode_threads_of(options)));
  if (sample.frames.empty())
    throw DataError("not one exam of the sample can be read; --dry-run tells more");
  return {"decode", static_cast<double>(decoded) / seconds_since(started),
          threads_note(decode_threads_of(options))};
}

StageRate measure_preprocess(const ExtractOptions& options, Sample& sample) {
  prepare_once(options, sample);
  std::vector<augment::ExamViews> views;
  for (std::size_t i = 0; i < sample.frames.size(); ++i)
    views.emplace_back(options.augmentation, concat("image ", i));
  const auto prepare = [&](std::size_t i) {
    make_inputs(options.preprocessing, sample.frames[i], views[i], sample.inputs[i]);
  };
  const auto turn = [&] {
    parallel_for(sample.frames.size(), prepare,
                 static_cast<std::size_t>(decode_threads_of(options)));
    return sample.frames.size();
  };
  return {"preprocess", frames_per_second(turn), threads_note(decode_threads_of(options))};
}

StageRate measure_input(const ExtractOptions& options, const Sample& sample,
                        const torch::Device& device) {
  const auto [height, width] = options.preprocessing.image_size;
  const auto count = static_cast<std::int64_t>(sample.inputs.size());
  const auto streams = make_streams(device);
  const auto frames = streams->host_memory({count, height, width, 3}, torch::kUInt8);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto& input = sample.inputs[static_cast<std::size_t>(i)];
    std::memcpy(frames[i].data_ptr(), input.data(), input.size());
  }
  const DeviceInput input(options.preprocessing, device);
  const auto turn = [&] {
    const auto images = input(frames);
    if (device.is_cuda()) torch::cuda::synchronize(device.index());
    return static_cast<std::size_t>(images.size(0));
  };
  return {"input", frames_per_second(turn),
          device.is_cuda() ? "copy to the device and normalise" : "normalise"};
}

StageRate measure_compute(const ExtractOptions& options, const Sample& sample,
                          vit::Backbone& backbone, const torch::Device& device) {
  BackboneBatch batch(backbone, device, options.preprocessing, options.batch,
                      [](const FramePlace&, std::span<const float>) {});
  std::uint32_t number = 0;
  const auto started = Clock::now();
  // Until the batch's size is found, a first batch has warmed libraries up and some more have been
  // timed; each frame differs, since the same one would not be computed again.
  BatchCounts before;
  bool settled = false;
  while (seconds_since(started) < 4 * kSecondsPerStage && !stop_requested()) {
    std::vector<std::uint8_t> pixels = sample.inputs[number % sample.inputs.size()];
    std::memcpy(pixels.data(), &number, sizeof number);
    batch.add({{0, number, 1}, std::move(pixels)});
    ++number;
    if (!settled && ((batch.settled() && batch.counts().frames > 0) ||
                     seconds_since(started) > 2 * kSecondsPerStage)) {
      settled = true;
      const bool slow = options.batch.batch > 0 && batch.counts().compute_s > kSecondsPerStage;
      if (!slow) before = batch.counts();  // else one batch tells enough
    }
    if (settled && batch.counts().compute_s - before.compute_s > kSecondsPerStage) break;
  }
  batch.compute();
  const BatchCounts& after = batch.counts();
  return {"compute",
          static_cast<double>(after.frames - before.frames) / (after.compute_s - before.compute_s),
          batch.learnt()};
}

StageRate measure_write(const ExtractOptions& options, const cache::Location& location,
                        const cache::Recipe& recipe, std::int64_t dimension) {
  constexpr std::size_t kFrames = 12, kExams = 512, kExamsWithCut = 16;
  cache::WriterOptions settings;
  settings.storage = options.storage;
  cache::ShardWriter writer(location, recipe, dimension, settings);
  std::mt19937 random(0);
  std::normal_distribution<float> value;
  cache::ExamFeatures exam{{}, {cache::ViewFeatures{}}};
  exam.views.front().values.resize(kFrames * static_cast<std::size_t>(dimension));
  for (float& feature : exam.views.front().values) feature = value(random);
  const auto cut = cache::find_cut(recipe, options.storage);
  if (cut) exam.views.front().cut.resize(kFrames * cut->row_bytes());
  const std::size_t exams = cut ? kExamsWithCut : kExams;
  exam.info.time_s.assign(kFrames, 0);
  exam.info.present.assign(kFrames, 1);
  exam.info.frame_index.assign(kFrames, 0);
  exam.info.frame_source.assign(kFrames, "frame");
  // About two bits a pixel.
  const auto side = static_cast<std::size_t>(options.thumbnails);
  if (side > 0) exam.thumbnails.assign(kFrames, std::string(side * side / 4, 'x'));
  const auto started = Clock::now();
  for (std::size_t i = 0; i < exams; ++i) {
    exam.info.id = concat("exam ", i);
    exam.info.ordinal = i;
    writer.add(exam);
  }
  writer.publish();
  return {"write", static_cast<double>(exams * kFrames) / seconds_since(started),
          "one shard, synchronised to disk"};
}

}  // namespace coldframe::extract::benchmark
