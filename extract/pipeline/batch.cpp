#include "extract/pipeline/batch.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/threads/parallel.h"
#include "common/torch/device_memory.h"

namespace coldframe::extract {
namespace {

// A few minutes of video, in some megabytes.
constexpr std::size_t kRemembered = 4096, kRememberedValues = 16u << 20;
constexpr std::size_t kBytesPerCopier = 4u << 20, kMostCopiers = 4;

BatchLimits within(BatchLimits limits, const vit::Backbone& backbone, const torch::Device& device) {
  const std::int64_t most = backbone.most_images();
  limits.batch = std::min(limits.batch, most);
  limits.most = std::min(limits.most, most);
  // Whatever fits three times is certain to: beside a pass there are its graph's memory, batches on
  // their way, and libraries.
  if (const std::uint64_t bytes = backbone.bytes_per_image(); bytes > 0) {
    const std::uint64_t fits = free_device_memory(device, limits.memory_budget) / (3 * bytes);
    limits.first = static_cast<std::int64_t>(
        std::bit_floor(std::min(fits, static_cast<std::uint64_t>(limits.most))));
  }
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
      controller_(within(limits, backbone, device)),
      recent_(remembered(backbone), static_cast<std::size_t>(backbone.row_values())),
      streams_(streams ? std::move(streams) : make_streams(device)),
      staging_(*streams_, preprocessing.image_size, backbone.row_values(),
               [this](const torch::Tensor& frames) { return forward(frames); }),
      sink_(std::move(sink)) {}

void BackboneBatch::add(DecodedFrame frame) {
  if (const auto known = recent_.find(frame.digest); !known.empty()) {
    ++counts_.frames;
    ++counts_.repeated;
    sink_(frame.place, known);
    return used_.push_back(std::move(frame.pixels));
  }
  const auto [place, is_new] =
      row_of_.try_emplace(frame.digest, RowPlace{slot_, rows(slot_).size()});
  if (!is_new) {
    ++counts_.repeated;
    rows(place->second.slot)[place->second.row].places.push_back(frame.place);
    return used_.push_back(std::move(frame.pixels));
  }
  reserve();
  rows(slot_).push_back({frame.digest, {frame.place}});
  pixels_.push_back(std::move(frame.pixels));
  if (static_cast<std::int64_t>(rows(slot_).size()) >= controller_.size()) start();
}

// One thread copies some 10 GB/s, 60 000 frames of 224×224, and has all else to do besides.
void BackboneBatch::copy_pixels() {
  const std::size_t frame = pixels_.front().size(), bytes = frame * pixels_.size();
  auto* const to = staging_.frames(slot_).mutable_data_ptr<std::uint8_t>();
  parallel_for(
      pixels_.size(), [&](std::size_t i) { std::memcpy(to + i * frame, pixels_[i].data(), frame); },
      std::clamp<std::size_t>(bytes / kBytesPerCopier, 1, kMostCopiers));
  std::ranges::move(pixels_, std::back_inserter(used_));
  pixels_.clear();
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
  peak_of(slot_) = 0;
  copy_pixels();
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
  if (streams_->asynchronous())
    slot_ = other;
  else
    finish(slot_);
}

void BackboneBatch::start_part(std::int64_t begin, std::int64_t size) {
  reset_device_memory_peak(device_);
  staging_.submit(slot_, begin, size);
  const std::uint64_t peak = peak_device_memory(device_) + backbone_.bytes_aside();
  peak_of(slot_) = std::max(peak_of(slot_), peak);
}

// Split batches are not used for tuning: the size is settled once memory has run out.
void BackboneBatch::finish(int slot) {
  if (rows(slot).empty()) return;
  const torch::Tensor& features = staging_.collect(slot);
  const double seconds = staging_.seconds(slot);
  counts_.compute_s += seconds;
  counts_.peak = std::max(counts_.peak, peak_of(slot));
  controller_.succeeded(static_cast<std::int64_t>(rows(slot).size()), seconds, peak_of(slot));
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
  // A job of less than a batch is computed as it is, and nothing is measured for it.
  filled_ = filled_ || frames.size(0) == controller_.size();
  backbone_.expect(filled_ ? controller_.size() : frames.size(0), filled_ && controller_.settled());
  if (backbone_.takes_frames())
    if (auto features = backbone_.forward_frames(frames, input_.levels()); features.defined())
      return features;
  return backbone_.forward(input_(frames));
}

}  // namespace coldframe::extract
