// What the processor does for each frame of a job beside reading and resizing it: decoding threads
// hand over frames of 224×224 that lie in memory (a copy stands for the resizer's writing), a
// backbone returns at once, and the rest is the job's own: queue, search for repeated frames,
// batch, assembly, shards on the disk.
//   host_path [FRAMES=60000] [DECODERS=1] [BATCH=256] [FRAMES_PER_EXAM=12] [FEATURES=384]
// Prints frames per second of wall time; of all threads' processor time, as frames per second and
// core; and of the one thread that fills the batches, which bounds what one device can be fed.
#include <sys/resource.h>
#include <time.h>

#include <atomic>
#include <cstring>
#include <iostream>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/publish/scratch_folder.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "common/torch/device.h"
#include "extract/pipeline/feature_sink.h"
#include "extract/pipeline/recipe.h"
#include "tests/support/driver.h"

namespace coldframe::extract {
namespace {

constexpr std::size_t kFrameBytes = 224 * 224 * 3, kDistinct = 512;

class InstantBackbone final : public vit::Backbone {
 public:
  InstantBackbone(std::int64_t batch, std::int64_t features)
      : features_(torch::linspace(-1, 1, batch * features).reshape({batch, features})) {}
  torch::Tensor forward(const torch::Tensor& images) override {
    return features_.narrow(0, 0, images.size(0));
  }
  bool takes_frames() const override { return true; }
  torch::Tensor forward_frames(const torch::Tensor& frames, const torch::Tensor&) override {
    return features_.narrow(0, 0, frames.size(0));
  }
  std::int64_t dimension() const override { return features_.size(1); }
  Precision precision() const override { return Precision::kFp32; }
  Json describe() const override { return {{"kind", "instant"}}; }

 private:
  torch::Tensor features_;
};

struct Input {
  std::size_t frames, exams, frames_per_exam;
  std::vector<std::vector<std::uint8_t>> pixels;  // that frames are copies of
};

Input make_input(std::size_t frames, std::size_t per_exam) {
  Input input{frames, frames / per_exam, per_exam, {}};
  for (std::size_t i = 0; i < kDistinct; ++i) {
    input.pixels.emplace_back(kFrameBytes);
    for (std::size_t at = 0; at < kFrameBytes; ++at)
      input.pixels.back()[at] = static_cast<std::uint8_t>(at * (i + 1) >> 4);
  }
  return input;
}

cache::ExamInfo describe(const Input& input, std::size_t exam) {
  cache::ExamInfo info;
  info.id = concat("exam", exam);
  info.ordinal = exam;
  info.source_stamp = concat(100000 + exam, ":1700000000000000000/0123456789abcdef|0|0");
  info.source_digest = "0123456789abcdef0123456789abcdef";
  info.source_kind = "images";
  info.frame_width = info.frame_height = 224;
  for (std::size_t slot = 0; slot < input.frames_per_exam; ++slot) {
    info.time_s.push_back(0.04 * static_cast<double>(slot));
    info.present.push_back(1);
    info.frame_index.push_back(static_cast<std::int64_t>(slot));
    info.frame_source.push_back(concat(info.id, "/frame_", slot, ".png"));
  }
  return info;
}

// No two frames are the same: their first bytes tell their number.
DecodedWindow decode(const Input& input, std::size_t exam, std::size_t slot,
                     std::vector<std::uint8_t> pixels) {
  const std::uint64_t number = exam * input.frames_per_exam + slot;
  pixels.resize(kFrameBytes);
  std::memcpy(pixels.data(), input.pixels[number % kDistinct].data(), kFrameBytes);
  std::memcpy(pixels.data(), &number, sizeof number);
  return {{exam, slot}, std::move(pixels)};
}

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

double processor_seconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime);
}

double own_processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void decode_exams(const Input& input, std::size_t decoders, DecodedQueue& queue,
                  std::vector<std::jthread>& threads) {
  static std::atomic<std::size_t> next, running;
  running = decoders;
  threads = start_threads(
      decoders,
      [&] {
        for (std::size_t exam = next++; exam < input.exams; exam = next++) {
          for (std::size_t slot = 0; slot < input.frames_per_exam; ++slot)
            queue.push(decode(input, exam, slot, queue.spare()));
          queue.push(DecodedExam{exam, describe(input, exam), {}, std::nullopt});
        }
        if (--running == 0) queue.close();
      },
      decoders);
}

int run_host_path(const std::vector<std::string>& words) {
  std::vector<std::int64_t> numbers{60000, 1, 256, 12, 384};
  for (std::size_t i = 0; i < words.size(); ++i)
    if (i >= numbers.size() || !parse_int(words[i], numbers[i]) || numbers[i] < 1)
      throw ConfigError("host_path [FRAMES] [DECODERS] [BATCH] [FRAMES_PER_EXAM] [FEATURES]");
  set_quiet(true);
  set_torch_threads(1);  // that wait for each other are no part of this
  const Input input =
      make_input(static_cast<std::size_t>(numbers[0]), static_cast<std::size_t>(numbers[3]));
  ExtractOptions options;
  options.preprocessing.image_size = 224;
  options.batch.batch = numbers[2];
  InstantBackbone backbone(numbers[2], numbers[4]);
  const ScratchFolder scratch;
  cache::ShardWriter writer(cache::locate(scratch.path() / "cache"), make_recipe(options, backbone),
                            backbone.dimension(), {});
  FeatureSink gathering(input.exams, backbone, writer, options);
  DecodedQueue queue(kFrameBytes, 1);
  const double before = processor_seconds(), own_before = own_processor_seconds();
  std::vector<std::jthread> threads;
  decode_exams(input, static_cast<std::size_t>(numbers[1]), queue, threads);
  compute({torch::kCPU, &backbone}, options, queue, gathering);
  const double own = own_processor_seconds() - own_before;
  const PipelineResult result = gathering.finish();
  writer.publish();
  const double processor = processor_seconds() - before;
  const auto frames = static_cast<double>(result.frames);
  std::cout << concat(result.frames, " frames, ", fixed(frames / gathering.seconds(), 0),
                      "/s; all threads ", fixed(1e6 * processor / frames, 1), " µs a frame, ",
                      fixed(frames / processor, 0), "/s and core; the batch's thread ",
                      fixed(1e6 * own / frames, 1), " µs a frame, ", fixed(frames / own, 0),
                      "/s\n");
  return 0;
}

const testing::Driver kHostPath{"host_path", run_host_path};

}  // namespace
}  // namespace coldframe::extract
