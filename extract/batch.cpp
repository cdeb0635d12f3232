#include "extract/batch.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "common/error.h"
#include "common/fingerprint.h"
#include "common/log.h"
#include "common/text.h"
#include "common/torch/device_memory.h"

namespace coldframe {
namespace {

// A few minutes of video, in some megabytes.
constexpr std::size_t kRemembered = 4096;

}  // namespace

Batch::Batch(vit::Backbone& backbone, const torch::Device& device,
             const preprocess::Preprocessing& preprocessing, const BatchLimits& limits, Sink sink)
    : backbone_(backbone),
      device_(device),
      input_(preprocessing, device),
      controller_(limits),
      recent_(kRemembered, static_cast<std::size_t>(backbone.dimension())),
      frames_(
          torch::empty({0, preprocessing.image_size, preprocessing.image_size, 3}, torch::kUInt8)),
      sink_(std::move(sink)) {}

void Batch::add(const DecodedFrame& frame) {
  const FrameDigest digest = xxh3_128(std::as_bytes(std::span(frame.pixels)));
  if (const auto known = recent_.find(digest); !known.empty()) {
    ++counts_.frames;
    ++counts_.repeated;
    return sink_(frame.place, known);
  }
  const auto [row, is_new] = row_of_.try_emplace(digest, rows_.size());
  if (!is_new) {
    ++counts_.repeated;
    rows_[row->second].places.push_back(frame.place);
    return;
  }
  reserve();
  std::memcpy(frames_[static_cast<std::int64_t>(rows_.size())].data_ptr(), frame.pixels.data(),
              frame.pixels.size());
  rows_.push_back({digest, {frame.place}});
  if (static_cast<std::int64_t>(rows_.size()) >= controller_.size()) compute();
}

void Batch::reserve() {
  // It grows between batches only: what it holds had room.
  while (rows_.empty() && frames_.size(0) < controller_.size()) {
    auto sizes = frames_.sizes().vec();
    sizes[0] = controller_.size();
    try {
      frames_ = torch::empty(sizes, torch::kUInt8);
    } catch (const c10::OutOfMemoryError&) {
      shrink(controller_.size());
    }
  }
}

void Batch::shrink(std::int64_t size) {
  if (size == 1)
    throw SystemError(
        "the device has not enough memory for a single frame; free some, raise --memory-budget, "
        "or use --device cpu");
  controller_.out_of_memory(size);
  log_warning(concat("out of memory at ", size, " frames; continuing with ", controller_.size(),
                     " per forward pass"));
}

void Batch::compute() {
  const auto count = static_cast<std::int64_t>(rows_.size());
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t size = std::min(controller_.size(), count - begin);
    torch::Tensor features;
    try {
      features = forward(begin, size);
    } catch (const c10::OutOfMemoryError&) {
      shrink(size);
      continue;
    }
    const std::span<const float> values(features.const_data_ptr<float>(),
                                        static_cast<std::size_t>(features.numel()));
    const auto dimension = static_cast<std::size_t>(features.size(1));
    for (std::int64_t i = 0; i < size; ++i)
      hand_out(rows_[static_cast<std::size_t>(begin + i)],
               values.subspan(static_cast<std::size_t>(i) * dimension, dimension));
    begin += size;
  }
  rows_.clear();
  row_of_.clear();
}

void Batch::hand_out(const Row& row, std::span<const float> feature) {
  for (const FramePlace& place : row.places) sink_(place, feature);
  counts_.frames += static_cast<std::int64_t>(row.places.size());
  recent_.add(row.digest, feature);
}

torch::Tensor Batch::forward(std::int64_t begin, std::int64_t size) {
  using Clock = std::chrono::steady_clock;
  reset_device_memory_peak(device_);
  const auto started = Clock::now();
  const auto features = backbone_.forward(input_(frames_.narrow(0, begin, size))).contiguous();
  const double seconds = std::chrono::duration<double>(Clock::now() - started).count();
  counts_.compute_s += seconds;
  const std::uint64_t peak = peak_device_memory(device_);
  counts_.peak = std::max(counts_.peak, peak);
  controller_.succeeded(size, seconds, peak);
  return features;
}

}  // namespace coldframe
