#include "extract/inspect/benchmark/benchmark.h"

#include <algorithm>
#include <filesystem>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/files/publish/scratch_folder.h"
#include "common/system/memory.h"
#include "common/text/table.h"
#include "common/text/text.h"
#include "extract/inspect/benchmark/stages.h"
#include "extract/pipeline/pipeline.h"

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
