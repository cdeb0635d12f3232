#include "extract/pipeline/devices/first_frames.h"

#include <cstring>
#include <future>

#include "extract/pipeline/decode/decode_stage.h"
#include "extract/pipeline/transfer/device_input.h"

namespace coldframe::extract {
namespace {

// [at most count, H, W, 3]
torch::Tensor read_first(const frames::ExamList& input, const ExtractOptions& options,
                         std::int64_t count) {
  const StageTimer timer(options.backbone.times.get(), "first_frames");
  DecodeSettings settings;
  settings.preprocessing = options.preprocessing;
  settings.selection = options.selection;
  settings.reader = options.reader;
  const auto [height, width] = options.preprocessing.image_size;
  const torch::Tensor frames = torch::empty({count, height, width, 3}, torch::kUInt8);

  DecodedQueue queue(static_cast<std::size_t>(3 * height * width), 1,
                     static_cast<std::size_t>(count));
  const DecodeStage decoder(input, settings, queue);
  std::int64_t found = 0;
  while (found < count) {
    const auto decoded = queue.pop();
    if (!decoded) break;
    if (const auto* frame = std::get_if<DecodedFrame>(&*decoded))
      std::memcpy(frames[found++].data_ptr(), frame->pixels.data(), frame->pixels.size());
  }
  return frames.narrow(0, 0, found);
}

}  // namespace

std::function<vit::CheckInput()> first_frames(const frames::ExamList& input,
                                              const ExtractOptions& options, std::int64_t count) {
  const auto reading =
      std::async([&input, &options, count] { return read_first(input, options, count); }).share();
  return [reading, &options]() -> vit::CheckInput {
    const torch::Tensor& frames = reading.get();
    if (frames.size(0) == 0) return {};
    const DeviceInput normalise(options.preprocessing, torch::kCPU);
    return {normalise(frames), frames, normalise.levels()};
  };
}

}  // namespace coldframe::extract
