#include "extract/inspect/benchmark.h"

#include <torch/cuda.h>
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/log.h"
#include "common/files/publish/scratch_folder.h"
#include "common/system/resources.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/frame.h"
#include "extract/input/exam_list.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"
#include "extract/pipeline/batch.h"
#include "extract/pipeline/crop_plan.h"
#include "extract/pipeline/pipeline.h"
#include "extract/pipeline/resume.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract::benchmark {

// One function per stage of extraction that runs it alone for some seconds. Internal to
// extract/inspect/benchmark.

struct DecodedSample {
  frames::Frame frame;
  std::optional<frames::Rect> crop;
};

struct Sample {
  frames::ExamList exams;
  std::vector<DecodedSample> frames;              // a few
  std::vector<std::vector<std::uint8_t>> inputs;  // the first of each, as the backbone sees it
  double inputs_per_frame = 1;                    // tiles and views
};

StageRate measure_decode(const ExtractOptions& options, Sample& sample);  // fills `frames`
// Fills the inputs, and leaves frames out that cannot be prepared.
StageRate measure_preprocess(const ExtractOptions& options, Sample& sample);
StageRate measure_input(const ExtractOptions& options, const Sample& sample,
                        const torch::Device& device);
StageRate measure_compute(const ExtractOptions& options, const Sample& sample,
                          vit::Backbone& backbone, const torch::Device& device);
StageRate measure_write(const ExtractOptions& options, const cache::Location& location,
                        const cache::Recipe& recipe, std::int64_t dimension);

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
                      [](const FeatureIndex&, std::span<const float>) {});
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

namespace coldframe::extract {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kSampleExams = 24;

// Returns a folder on the disk that the cache will lie on.
fs::path folder_of(const fs::path& out) {
  return out.empty() ? out : fs::absolute(out).parent_path();
}

frames::ExamList choose_sample(const frames::ExamList& input) {
  frames::ExamList sample;
  sample.frame_columns = input.frame_columns;
  const auto count = static_cast<std::int64_t>(input.exams.size());
  for (const std::int64_t i : frames::spread_evenly(count, kSampleExams)) {
    sample.exams.push_back(input.exams[static_cast<std::size_t>(i)]);
    sample.exams.back().ordinal = static_cast<std::uint64_t>(i);
  }
  return sample;
}

// Converts the rate of a stage that took single inputs of the backbone, or single features.
StageRate per_frame(StageRate stage, double of_a_frame) {
  stage.frames_per_second /= of_a_frame;
  return stage;
}

// Decoding and preprocessing share their threads: together they are as slow as both. So do
// normalising and computing on a CPU; to a GPU frames are copied while it computes.
std::string find_bottleneck(const std::vector<StageRate>& stages, double devices, bool overlap) {
  const auto rate = [&](const char* name) {
    return std::find_if(stages.begin(), stages.end(),
                        [&](const StageRate& stage) { return stage.name == name; })
        ->frames_per_second;
  };
  const double read = 1 / (1 / rate("decode") + 1 / rate("preprocess"));
  const double compute = devices * (overlap ? std::min(rate("input"), rate("compute"))
                                            : 1 / (1 / rate("input") + 1 / rate("compute")));
  if (rate("write") < std::min(read, compute)) return "write";
  if (compute < read) return "compute";
  return rate("decode") < rate("preprocess") ? "decode" : "preprocess";
}

void run_job(const frames::ExamList& sample, const ExtractOptions& options,
             const cache::Location& location, const cache::Recipe& recipe,
             const std::vector<ComputeDevice>& devices, BenchmarkReport& report) {
  cache::WriterOptions stored;
  stored.storage = options.storage;
  cache::ShardWriter writer(location, recipe, devices.front().backbone->dimension(), stored);
  const PipelineResult result = run_pipeline(sample, options, devices, writer);
  writer.publish();
  report.sample_exams = result.exams;
  report.sample_frames = result.frames;
  report.overlapped = static_cast<double>(result.frames) / result.seconds;
  report.compute_busy = result.compute_s / result.seconds;
  report.peak_device_bytes = result.peak_device_bytes;
}

void estimate(const frames::ExamList& input, BenchmarkReport& report) {
  report.input_exams = input.exams.size();
  report.peak_resident_bytes = peak_resident_bytes();
  if (report.sample_exams == 0) return;
  report.input_frames = static_cast<double>(report.sample_frames) *
                        static_cast<double>(report.input_exams) /
                        static_cast<double>(report.sample_exams);
  report.input_seconds = report.input_frames / report.overlapped;
}

}  // namespace

BenchmarkReport run_benchmark(const frames::ExamList& input, const ExtractOptions& options,
                              const cache::Recipe& recipe,
                              const std::vector<ComputeDevice>& devices) {
  const torch::Device device = devices.front().device;
  vit::Backbone& backbone = *devices.front().backbone;
  const ScratchFolder scratch(folder_of(options.out));
  BenchmarkReport report;
  benchmark::Sample sample;
  sample.exams = choose_sample(input);
  const cache::Location written = cache::locate(scratch.path() / "write");
  report.stages = {benchmark::measure_decode(options, sample),
                   benchmark::measure_preprocess(options, sample)};
  // A frame is an input per view and tile, and a feature per view.
  const double inputs = sample.inputs_per_frame;
  const auto views = static_cast<double>(1 + options.augmentation.views);
  report.stages.push_back(per_frame(benchmark::measure_input(options, sample, device), inputs));
  report.stages.push_back(
      per_frame(benchmark::measure_compute(options, sample, backbone, device), inputs));
  report.stages.push_back(
      per_frame(benchmark::measure_write(options, written, recipe, backbone.dimension()), views));
  if (!stop_requested())
    run_job(sample.exams, options, cache::locate(scratch.path() / "job"), recipe, devices, report);
  if (stop_requested()) throw Interrupted("stopped; nothing was extracted");
  report.bottleneck =
      find_bottleneck(report.stages, static_cast<double>(devices.size()), device.is_cuda());
  if (devices.size() > 1) report.stages[3].note += concat("; one of ", devices.size(), " devices");
  estimate(input, report);
  return report;
}

std::string to_text(const BenchmarkReport& report) {
  std::string text = concat("each alone           frames/s\n");
  for (const StageRate& stage : report.stages) {
    const std::string rate = fixed(stage.frames_per_second, 1);
    text += concat("  ", padded(stage.name, 15), " ",
                   std::string(rate.size() < 10 ? 10 - rate.size() : 0, ' '), rate, "   ",
                   stage.note, "\n");
  }
  const auto frames = static_cast<std::size_t>(report.input_frames + 0.5);
  return text + concat("together           ", fixed(report.overlapped, 1), " frames/s, computing ",
                       fixed(100 * report.compute_busy, 0), " % of the time (",
                       plural(report.sample_exams, "exam"), ", ",
                       plural(report.sample_frames, "frame"), ", start included)\n",
                       "bottleneck         ", report.bottleneck, "\n", "whole input        ",
                       plural(report.input_exams, "exam"), ", about ", plural(frames, "frame"),
                       ": about ", human_duration(report.input_seconds), "\n",
                       "memory             ", human_bytes(report.peak_device_bytes),
                       " in tensors, ", human_bytes(report.peak_resident_bytes), " resident\n");
}

Json to_json(const BenchmarkReport& report) {
  Json stages = Json::array();
  for (const StageRate& stage : report.stages)
    stages.push_back({{"stage", stage.name},
                      {"frames_per_second", json_number(stage.frames_per_second)},
                      {"note", stage.note}});
  return {{"stages", stages},
          {"sample", {{"exams", report.sample_exams}, {"frames", report.sample_frames}}},
          {"frames_per_second", json_number(report.overlapped)},
          {"compute_busy", json_number(report.compute_busy)},
          {"bottleneck", report.bottleneck},
          {"input",
           {{"exams", report.input_exams},
            {"estimated_frames", json_number(report.input_frames)},
            {"estimated_seconds", json_number(report.input_seconds)}}},
          {"peak_device_bytes", report.peak_device_bytes},
          {"peak_resident_bytes", report.peak_resident_bytes}};
}

}  // namespace coldframe::extract
