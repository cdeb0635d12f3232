#include "extract/pipeline/batch.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "common/torch/device_memory.h"

namespace coldframe::extract {
namespace {

// A few minutes of video, in some megabytes.
constexpr std::size_t kRemembered = 4096, kRememberedValues = 16u << 20;

BatchLimits within(BatchLimits limits, std::int64_t most) {
  limits.batch = std::min(limits.batch, most);
  limits.most = std::min(limits.most, most);
  return limits;
}

std::size_t remembered(const vit::Backbone& backbone) {
  const auto values = static_cast<std::size_t>(backbone.row_values());
  return std::clamp<std::size_t>(kRememberedValues / values, 1, kRemembered);
}

}  // namespace

BackboneBatch::BackboneBatch(vit::Backbone& backbone, const torch::Device& device,
                             const preprocess::Preprocessing& preprocessing,
                             const BatchLimits& limits, Sink sink, std::unique_ptr<Streams> streams)
    : backbone_(backbone),
      device_(device),
      input_(preprocessing, device),
      controller_(within(limits, backbone.most_images())),
      recent_(remembered(backbone), static_cast<std::size_t>(backbone.row_values())),
      streams_(streams ? std::move(streams) : make_streams(device)),
      staging_(*streams_, preprocessing.image_size, backbone.row_values(),
               [this](const torch::Tensor& frames) { return forward(frames); }),
      sink_(std::move(sink)) {}

void BackboneBatch::add(const DecodedFrame& frame) {
  const FrameDigest digest = xxh3_128(std::as_bytes(std::span(frame.pixels)));
  if (const auto known = recent_.find(digest); !known.empty()) {
    ++counts_.frames;
    ++counts_.repeated;
    return sink_(frame.place, known);
  }
  const auto [place, is_new] = row_of_.try_emplace(digest, RowPlace{slot_, rows(slot_).size()});
  if (!is_new) {
    ++counts_.repeated;
    rows(place->second.slot)[place->second.row].places.push_back(frame.place);
    return;
  }
  reserve();
  std::memcpy(staging_.frames(slot_)[static_cast<std::int64_t>(rows(slot_).size())].data_ptr(),
              frame.pixels.data(), frame.pixels.size());
  rows(slot_).push_back({digest, {frame.place}});
  if (static_cast<std::int64_t>(rows(slot_).size()) >= controller_.size()) start();
}

void BackboneBatch::reserve() {
  // It grows between batches only: what it holds had room.
  while (rows(slot_).empty() && staging_.capacity(slot_) < controller_.size()) {
    try {
      staging_.reserve(slot_, controller_.size());
    } catch (const c10::OutOfMemoryError&) {
      shrink(controller_.size());
    }
  }
}

void BackboneBatch::shrink(std::int64_t size) {
  if (size == 1)
    throw SystemError(
        concat(device_.str(), " has not enough memory for a single frame; free some, or ",
               "raise --memory-budget", device_.is_cpu() ? "" : ", or use --device cpu"));
  backbone_.release_memory();  // it may be what the larger batch left
  release_device_memory(device_);
  controller_.out_of_memory(size);
  log_warning(concat("out of memory at ", size, " frames; continuing with ", controller_.size(),
                     " per forward pass"));
}

void BackboneBatch::start() {
  const auto count = static_cast<std::int64_t>(rows(slot_).size());
  timed_s_ = 0;
  for (std::int64_t begin = 0; begin < count;) {
    const std::int64_t size = std::min(controller_.size(), count - begin);
    try {
      start_part(begin, size);
    } catch (const c10::OutOfMemoryError&) {
      shrink(size);
      continue;
    }
    begin += size;
  }
  const int other = (slot_ + 1) % Staging::kSlots;
  finish(other);
  if (overlapping() && timed_s_ == 0)
    slot_ = other;
  else
    finish(slot_);
}

// While the size is being found, each part is waited for and timed.
void BackboneBatch::start_part(std::int64_t begin, std::int64_t size) {
  using Clock = std::chrono::steady_clock;
  reset_device_memory_peak(device_);
  const bool timed = !overlapping();
  if (timed) finish((slot_ + 1) % Staging::kSlots);
  const auto started = Clock::now();
  staging_.submit(slot_, begin, size);
  if (timed) staging_.collect(slot_);
  const std::uint64_t peak = peak_device_memory(device_) + backbone_.bytes_aside();
  counts_.peak = std::max(counts_.peak, peak);
  if (!timed) return;
  // Copies to a device overlap its work once the size is settled.
  const double seconds = streams_->asynchronous()
                             ? staging_.seconds(slot_)
                             : std::chrono::duration<double>(Clock::now() - started).count();
  timed_s_ += seconds;
  controller_.succeeded(size, seconds, peak);
}

void BackboneBatch::finish(int slot) {
  if (rows(slot).empty()) return;
  const torch::Tensor& features = staging_.collect(slot);
  counts_.compute_s += slot == slot_ && timed_s_ > 0 ? timed_s_ : staging_.seconds(slot);
  const std::span<const float> values(features.const_data_ptr<float>(),
                                      static_cast<std::size_t>(features.numel()));
  const auto dimension = static_cast<std::size_t>(features.size(1));
  for (std::size_t i = 0; i < rows(slot).size(); ++i) {
    const Row& row = rows(slot)[i];
    const auto feature = values.subspan(i * dimension, dimension);
    for (const FramePlace& place : row.places) sink_(place, feature);
    counts_.frames += static_cast<std::int64_t>(row.places.size());
    recent_.add(row.digest, feature);
    row_of_.erase(row.digest);
  }
  rows(slot).clear();
}

void BackboneBatch::compute() {
  if (!rows(slot_).empty()) start();
  for (int slot = 0; slot < Staging::kSlots; ++slot) finish(slot);
}

torch::Tensor BackboneBatch::forward(const torch::Tensor& frames) {
  backbone_.expect(controller_.size());
  if (backbone_.takes_frames())
    if (auto features = backbone_.forward_frames(frames, input_.levels()); features.defined())
      return features;
  return backbone_.forward(input_(frames));
}

}  // namespace coldframe::extract
