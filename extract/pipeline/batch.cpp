#include "extract/pipeline/batch.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/Exception.h>
#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <limits>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "common/torch/memory.h"
#include "extract/cuda/library.h"

namespace coldframe::extract {

namespace {

constexpr int kBatchesPerSize = 3;
constexpr double kWorthwhile = 1.05;

}  // namespace

BatchController::BatchController(const BatchLimits& limits)
    : limits_(limits),
      size_(limits.batch > 0 ? limits.batch
                             : std::min(std::max(limits.begins_with_one ? 1 : kFirst, limits.first),
                                        limits.most)),
      settled_(limits.batch > 0 || size_ * 2 > limits.most) {}

void BatchController::succeeded(std::int64_t frames, double seconds, std::uint64_t peak) {
  if (settled_ || frames != size_) return;  // ignores a last, smaller batch
  if (seconds > 0) rate_ = std::max(rate_, static_cast<double>(frames) / seconds);
  peak_ = std::max(peak_, peak);
  if (++batches_ == kBatchesPerSize) grow_or_settle();
}

void BatchController::grow_or_settle() {
  const bool paid = rate_before_ == 0 || rate_ >= kWorthwhile * rate_before_;
  if (!paid) {
    size_ /= 2;
    settled_ = true;
  } else if (size_ * 2 > limits_.most || !next_fits()) {
    settled_ = true;
  } else {
    size_ *= 2;
    rate_before_ = rate_;
    peak_before_ = peak_;
    rate_ = 0;
    peak_ = 0;
    batches_ = 0;
  }
}

// Memory is linear in the number of frames, on top of the weights.
bool BatchController::next_fits() const {
  if (limits_.memory_budget == 0) return true;
  const std::uint64_t per_doubling =
      peak_before_ == 0 || peak_ < peak_before_ ? peak_ : 2 * (peak_ - peak_before_);
  return peak_ + per_doubling <= limits_.memory_budget;
}

void BatchController::out_of_memory(std::int64_t frames) {
  size_ = std::max<std::int64_t>(1, std::min(size_, frames / 2));
  settled_ = true;
  halved_ = true;
}

std::string BatchController::learnt() const {
  return concat(plural(static_cast<std::size_t>(size_), limits_.of), " per forward pass",
                halved_              ? " (as many as fit)"
                : limits_.batch == 0 ? (settled_ ? " (auto)" : " (auto, still growing)")
                                     : "");
}

namespace {

constexpr std::int64_t kMaxLaunchPixels = std::numeric_limits<std::int32_t>::max();  // of a launch

// The same look-up with LibTorch's operators. frames [B, H, W, 3] uint8, table [3, 256].
torch::Tensor look_up(const torch::Tensor& frames, const torch::Tensor& table) {
  std::vector<torch::Tensor> planes;
  for (std::int64_t channel = 0; channel < 3; ++channel) {
    planes.push_back(table[channel].index({frames.select(3, channel).to(torch::kInt64)}));
  }
  return torch::stack(planes, 1);
}

}  // namespace

InputShape input_shape(const preprocess::Preprocessing& preprocessing, std::int64_t clip_frames) {
  const preprocess::Size3& block = preprocessing.volume.block;
  if (preprocessing.volume.is_on()) return {{block[0], block[1], block[2]}, torch::kFloat32};
  const auto [height, width] = preprocessing.image_size;
  if (clip_frames == 1) return {{height, width, 3}};
  return {{clip_frames, height, width, 3}};
}

DeviceInput::DeviceInput(const preprocess::Preprocessing& preprocessing,
                         const torch::Device& device)
    : preprocessing_(preprocessing), device_(device) {
  auto table = preprocess::normalization_table(preprocessing);
  table_ = torch::from_blob(table.data(), {3, 256}, torch::kFloat32).clone().to(device);
}

torch::Tensor DeviceInput::operator()(const torch::Tensor& frames) const {
  if (preprocessing_.volume.is_on())
    return frames.to(device_).sub(preprocessing_.mean[0]).div_(preprocessing_.std[0]).unsqueeze(1);
  if (frames.dim() == 5)
    return (*this)(frames.flatten(0, 1)).unflatten(0, {frames.size(0), frames.size(1)});
  return device_.is_cpu() ? on_cpu(frames) : on_cuda(frames);
}

torch::Tensor DeviceInput::on_cpu(const torch::Tensor& frames) const {
  const std::int64_t batch = frames.size(0), values = frames[0].numel();
  torch::Tensor images = torch::empty({batch, 3, frames.size(1), frames.size(2)}, torch::kFloat32);
  const auto* in = frames.const_data_ptr<std::uint8_t>();
  auto* out = images.data_ptr<float>();
  at::parallel_for(0, batch, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i)
      preprocess::normalize(preprocessing_, in + i * values, out + i * values);
  });
  return images;
}

torch::Tensor DeviceInput::on_cuda(const torch::Tensor& frames) const {
  const cuda::GpuKernels* const kernels = cuda::kernels();
  const torch::Tensor resident = frames.to(device_);
  if (!kernels || frames.size(1) != frames.size(2)) return look_up(resident, table_);
  const std::int64_t batch = frames.size(0), size = frames.size(1);
  torch::Tensor images = torch::empty({batch, 3, size, size}, table_.options());
  const c10::DeviceGuard guard(device_);  // the launch goes to the current device
  const c10::impl::VirtualGuardImpl streams(device_.type());
  const auto* in = resident.const_data_ptr<std::uint8_t>();
  auto* out = images.data_ptr<float>();
  const std::int64_t pixels = size * size;
  // The number of images is a multiple of 16: each launch's bytes are then aligned for vector
  // loads.
  const std::int64_t most = std::max<std::int64_t>(1, kMaxLaunchPixels / pixels / 16 * 16);
  int error = 0;
  for (std::int64_t i = 0; i < batch && error == 0; i += most)
    error =
        kernels->patches({in + i * 3 * pixels, table_.const_data_ptr<float>(), out + i * 3 * pixels,
                          std::min(most, batch - i), size, size, 3 * pixels, DType::kFp32},
                         streams.getStream(device_).native_handle());
  if (error != 0)
    throw SystemError(concat("the CUDA kernel that normalises frames failed with error ", error,
                             "; run with --device cpu, or check the driver with nvidia-smi"));
  return images;
}

RecentFeatures::RecentFeatures(std::size_t capacity, std::size_t dimension)
    : dimension_(dimension), values_(capacity * dimension) {
  digests_.reserve(capacity);
}

std::span<const float> RecentFeatures::find(const InputDigest& digest) const {
  const auto place = places_.find(digest);
  if (place == places_.end()) return {};
  return std::span(values_).subspan(place->second * dimension_, dimension_);
}

void RecentFeatures::add(const InputDigest& digest, std::span<const float> feature) {
  const std::size_t capacity = values_.size() / dimension_;
  std::size_t place = digests_.size();
  if (place < capacity) {
    digests_.push_back(digest);
  } else {
    place = oldest_;
    oldest_ = (oldest_ + 1) % capacity;
    places_.erase(digests_[place]);
    digests_[place] = digest;
  }
  places_[digest] = place;
  std::copy(feature.begin(), feature.end(),
            values_.begin() + static_cast<std::ptrdiff_t>(place * dimension_));
}

namespace {

// A few minutes of video, in some megabytes.
constexpr std::size_t kRemembered = 4096, kRememberedValues = 16u << 20;
constexpr std::size_t kBytesPerCopier = 4u << 20, kMaxCopiers = 4;

// Images that have as many pixels as an input of the backbone.
std::int64_t images_of(const vit::Backbone& backbone) {
  constexpr std::int64_t kPixels = 224 * 224;
  return backbone.takes_blocks()
             ? std::max<std::int64_t>(1, preprocess::voxels_of(backbone.block()) / kPixels)
             : backbone.clip_frames();
}

BatchLimits within(BatchLimits limits, const vit::Backbone& backbone, const torch::Device& device) {
  const std::int64_t most = backbone.max_images();
  limits.of = input_name_of(backbone);
  limits.begins_with_one = backbone.takes_blocks();
  limits.batch = std::min(limits.batch, most);
  limits.most = std::min(std::max<std::int64_t>(1, limits.most / images_of(backbone)), most);
  // Requires that it fits three times: besides a pass, memory holds its graph, batches in flight,
  // and libraries.
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
      staging_(*streams_, input_shape(preprocessing, backbone.clip_frames()), backbone.row_values(),
               [this](const torch::Tensor& frames, int slot, std::int64_t begin) {
                 return forward(frames, slot, begin);
               }),
      sink_(std::move(sink)) {}

void BackboneBatch::add(DecodedWindow window) {
  if (const auto known = recent_.find(window.digest); !known.empty()) {
    ++counts_.frames;
    ++counts_.repeated;
    sink_(window.place, known);
    return used_.push_back(std::move(window.pixels));
  }
  const auto [place, is_new] =
      row_of_.try_emplace(window.digest, RowPlace{slot_, rows(slot_).size()});
  if (!is_new) {
    ++counts_.repeated;
    rows(place->second.slot)[place->second.row].places.push_back(window.place);
    return used_.push_back(std::move(window.pixels));
  }
  reserve();
  rows(slot_).push_back({window.digest, window.blank, {window.place}});
  pixels_.push_back(std::move(window.pixels));
  if (static_cast<std::int64_t>(rows(slot_).size()) >= controller_.size()) start();
}

// One thread copies some 10 GB/s, 60 000 frames of 224×224, and has all else to do besides.
void BackboneBatch::copy_pixels() {
  const std::size_t frame = pixels_.front().size(), bytes = frame * pixels_.size();
  auto* const to = static_cast<std::uint8_t*>(staging_.frames(slot_).mutable_data_ptr());
  parallel_for(
      pixels_.size(), [&](std::size_t i) { std::memcpy(to + i * frame, pixels_[i].data(), frame); },
      std::clamp<std::size_t>(bytes / kBytesPerCopier, 1, kMaxCopiers));
  std::ranges::move(pixels_, std::back_inserter(used_));
  pixels_.clear();
}

void BackboneBatch::reserve() {
  // It grows only between batches: its content fits.
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
    throw SystemError(concat(device_.str(), " has not enough memory for a single ",
                             input_name_of(backbone_), "; free some, or ", "raise --memory-budget",
                             device_.is_cpu() ? "" : ", or use --device cpu"));
  backbone_.release_memory();  // it may be left over from the larger batch
  release_device_memory(device_);
  controller_.out_of_memory(size);
  log_warning(concat("out of memory at ", size, " ", input_name_of(backbone_),
                     "s; continuing with ", controller_.size(), " per forward pass"));
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
    for (const FeatureIndex& place : row.places) sink_(place, feature);
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

torch::Tensor BackboneBatch::forward(const torch::Tensor& frames, int slot, std::int64_t begin) {
  // A job smaller than a batch is computed without measurements.
  filled_ = filled_ || frames.size(0) == controller_.size();
  backbone_.expect(filled_ ? controller_.size() : frames.size(0), filled_ && controller_.settled());
  if (frames.dim() == 5) {
    torch::Tensor clips = input_(frames);
    blank_padding(clips, slot, begin);
    return backbone_.forward(clips);
  }
  if (backbone_.takes_frames())
    if (auto features = backbone_.forward_frames(frames, input_.levels()); features.defined())
      return features;
  return backbone_.forward(input_(frames));
}

void BackboneBatch::blank_padding(torch::Tensor& clips, int slot, std::int64_t begin) {
  for (std::int64_t i = 0; i < clips.size(0); ++i) {
    const Row& row = rows(slot)[static_cast<std::size_t>(begin + i)];
    const auto blank = static_cast<std::int64_t>(row.blank);
    if (blank > 0) clips[i].narrow(0, clips.size(1) - blank, blank).zero_();
  }
}

}  // namespace coldframe::extract
