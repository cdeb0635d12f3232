#include "extract/batch.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstring>

#include "common/error.h"
#include "common/log.h"
#include "common/text.h"

namespace coldframe {

Batch::Batch(vit::Backbone& backbone, DeviceInput input, std::int64_t image_size,
             std::int64_t capacity, Sink sink)
    : backbone_(backbone),
      input_(std::move(input)),
      frames_(torch::empty({capacity, image_size, image_size, 3}, torch::kUInt8)),
      part_(capacity),
      sink_(std::move(sink)) {}

void Batch::add(const DecodedFrame& frame) {
  const auto position = static_cast<std::int64_t>(places_.size());
  std::memcpy(frames_[position].data_ptr(), frame.pixels.data(), frame.pixels.size());
  places_.push_back(frame.place);
  if (position + 1 == frames_.size(0)) compute();
}

void Batch::compute() {
  const auto count = static_cast<std::int64_t>(places_.size());
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t size = std::min(part_, count - begin);
    torch::Tensor features;
    try {
      features = forward(frames_.narrow(0, begin, size));
    } catch (const c10::OutOfMemoryError&) {
      if (size == 1)
        throw SystemError(
            "the device has not enough memory for a single frame; free some, or use --device cpu");
      part_ = size / 2;
      log_warning(concat("out of memory at ", size, " frames; continuing with ", part_,
                         " per forward pass"));
      continue;
    }
    const std::span<const float> values(features.const_data_ptr<float>(),
                                        static_cast<std::size_t>(features.numel()));
    const auto dimension = static_cast<std::size_t>(features.size(1));
    for (std::int64_t i = 0; i < size; ++i) {
      sink_(places_[static_cast<std::size_t>(begin + i)],
            values.subspan(static_cast<std::size_t>(i) * dimension, dimension));
    }
    begin += size;
  }
  done_ += count;
  places_.clear();
}

torch::Tensor Batch::forward(const torch::Tensor& frames) {
  return backbone_.forward(input_(frames)).contiguous();
}

}  // namespace coldframe
