#include "extract/frames/nifti/slice_reader.h"

#include <nifti2_io.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "common/cli/error.h"

namespace coldframe::frames {
namespace {

constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
constexpr std::int64_t kBatchBytes = std::int64_t{1} << 26;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

void to_machine_order(std::span<std::byte> bytes, const NiftiHeader& header) {
  const std::size_t size = header.type.value_bytes();
  if (header.swapped && size > 1) {
    nifti_swap_Nbytes(static_cast<std::int64_t>(bytes.size() / size), static_cast<int>(size),
                      bytes.data());
  }
}

// Turns values as they lie in the file into levels. Types of up to 16 bits take them from a table.
class LevelMap {
 public:
  LevelMap(const NiftiHeader& header, const ValueRange& range)
      : number_(header.type.number),
        size_(header.type.value_bytes()),
        rescale_(header.rescale),
        range_(range) {
    if (size_ > 2) return;
    const std::size_t entries = std::size_t{1} << (8 * size_);
    std::vector<std::byte> keys(entries * size_);
    for (std::size_t i = 0; i < entries; ++i) {
      if (size_ == 1) {
        keys[i] = static_cast<std::byte>(i);
      } else {
        const auto key = static_cast<std::uint16_t>(i);
        std::memcpy(keys.data() + 2 * i, &key, sizeof key);
      }
    }
    std::vector<std::uint8_t> table(entries);
    compute(keys, table);
    table_ = std::move(table);
  }

  void operator()(std::span<const std::byte> bytes, std::span<std::uint8_t> levels) {
    if (table_.empty()) return compute(bytes, levels);
    for (std::size_t i = 0; i < levels.size(); ++i) {
      std::uint16_t key = 0;
      if (size_ == 1) {
        key = static_cast<std::uint8_t>(bytes[i]);
      } else {
        std::memcpy(&key, bytes.data() + 2 * i, sizeof key);
      }
      levels[i] = table_[key];
    }
  }

  // True for the value at this place of the bytes that were turned into levels last.
  bool was_finite(std::size_t at) const { return !table_.empty() || std::isfinite(values_[at]); }

 private:
  void compute(std::span<const std::byte> bytes, std::span<std::uint8_t> levels) {
    values_.resize(levels.size());
    convert(bytes, number_, std::span(values_));
    for (std::size_t i = 0; i < levels.size(); ++i) {
      levels[i] = to_level(rescale_(values_[i]), range_);
    }
  }

  DType number_;
  std::size_t size_;
  Rescale rescale_;
  ValueRange range_;
  std::vector<std::uint8_t> table_;
  std::vector<double> values_;
};

class Gatherer {
 public:
  Gatherer(VolumeBytes& bytes, const NiftiHeader& header, const SliceGeometry& geometry,
           const ValueRange& range)
      : bytes_(bytes),
        header_(header),
        geometry_(geometry),
        map_(header, range),
        pixels_(geometry.width * geometry.height),
        channels_(header.type.is_colour() || header.components > 1 ? 3 : 1) {}

  std::int64_t slices_per_pass() const {
    return std::max<std::int64_t>(1, kBatchBytes / (pixels_ * channels_));
  }
  void gather(std::int64_t time, std::span<const std::int64_t> slices);
  Image image(std::size_t slot) const;
  double finite(std::size_t slot) const { return finite_[slot].share(); }

 private:
  void gather_volume(std::int64_t volume, std::int64_t channel);
  void gather_rows(std::uint64_t offset, std::int64_t first, std::int64_t count, std::int64_t k);
  void place(std::size_t row, std::int64_t j, std::int64_t k);
  std::uint8_t* target(std::int64_t slot, std::int64_t j, std::int64_t k) {
    const std::int64_t pixel = geometry_.origin + j * geometry_.step[1] + k * geometry_.step[2];
    return gathered_.data() + (slot * pixels_ + pixel) * channels_ + channel_;
  }

  VolumeBytes& bytes_;
  const NiftiHeader& header_;
  const SliceGeometry& geometry_;
  LevelMap map_;
  std::int64_t pixels_, channels_, channel_ = 0;
  std::vector<std::uint8_t> gathered_;  // [slot, pixel, channel]
  std::vector<std::int64_t> slot_of_;   // by index along the file's axis, −1: not wanted
  std::int64_t first_ = 0, last_ = 0;   // wanted indices along it
  std::vector<std::byte> block_;
  std::vector<std::uint8_t> levels_;
  std::vector<FiniteShare> finite_;  // by slot
};

void Gatherer::gather(std::int64_t time, std::span<const std::int64_t> slices) {
  gathered_.resize(slices.size() * at(pixels_ * channels_));
  finite_.assign(slices.size(), {});
  slot_of_.assign(at(geometry_.slices), -1);
  first_ = geometry_.slices, last_ = -1;
  for (std::size_t slot = 0; slot < slices.size(); ++slot) {
    const std::int64_t index =
        geometry_.flipped ? geometry_.slices - 1 - slices[slot] : slices[slot];
    slot_of_[at(index)] = static_cast<std::int64_t>(slot);
    first_ = std::min(first_, index), last_ = std::max(last_, index);
  }
  for (std::int64_t component = 0; component < std::min<std::int64_t>(3, header_.components);
       ++component) {
    gather_volume(component * header_.times + time, component);
  }
}

void Gatherer::gather_volume(std::int64_t volume, std::int64_t channel) {
  const auto [nx, ny, nz] = header_.size;
  const std::size_t row_bytes = at(nx) * header_.type.voxel_bytes();
  const std::int64_t rows_at_once =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(kBlockBytes / row_bytes));
  const bool across_k = geometry_.file_axis == 2, across_j = geometry_.file_axis == 1;
  channel_ = channel;
  for (std::int64_t k = across_k ? first_ : 0; k < (across_k ? last_ + 1 : nz); ++k) {
    if (across_k && slot_of_[at(k)] < 0) continue;
    const std::int64_t end = across_j ? last_ + 1 : ny;
    for (std::int64_t j = across_j ? first_ : 0; j < end; j += rows_at_once) {
      const auto row = static_cast<std::uint64_t>((volume * nz + k) * ny + j);
      gather_rows(header_.offset + row * row_bytes, j, std::min(rows_at_once, end - j), k);
    }
  }
}

void Gatherer::gather_rows(std::uint64_t offset, std::int64_t first, std::int64_t count,
                           std::int64_t k) {
  const std::size_t values = at(header_.size[0] * header_.type.values);
  block_.resize(at(count) * values * header_.type.value_bytes());
  levels_.resize(at(count) * values);
  bytes_.read_at(offset, block_);
  to_machine_order(block_, header_);
  map_(block_, levels_);
  for (std::int64_t row = 0; row < count; ++row) {
    place(at(row) * values, first + row, k);
  }
}

// `row`: where one row of the file begins among the levels, whose values are interleaved.
void Gatherer::place(std::size_t row, std::int64_t j, std::int64_t k) {
  const auto values = at(header_.type.values), copied = std::min<std::size_t>(values, 3);
  const auto copy = [&](std::uint8_t* to, std::int64_t i, std::int64_t slot) {
    const std::size_t voxel = row + at(i) * values;
    std::copy_n(levels_.data() + voxel, copied, to);
    finite_[at(slot)].add(map_.was_finite(voxel));
  };
  if (geometry_.file_axis == 0) {
    for (std::int64_t i = first_; i <= last_; ++i) {
      const std::int64_t slot = slot_of_[at(i)];
      if (slot >= 0) copy(target(slot, j, k), i, slot);
    }
    return;
  }
  const std::int64_t slot = slot_of_[at(geometry_.file_axis == 1 ? j : k)];
  if (slot < 0) return;
  std::uint8_t* to = target(slot, j, k);
  const std::int64_t step = geometry_.step[0] * channels_;
  for (std::int64_t i = 0; i < header_.size[0]; ++i) copy(to + i * step, i, slot);
}

Image Gatherer::image(std::size_t slot) const {
  const std::size_t pixels = at(pixels_);
  const std::uint8_t* from = gathered_.data() + slot * pixels * at(channels_);
  Image image{static_cast<int>(geometry_.width), static_cast<int>(geometry_.height),
              std::vector<std::uint8_t>(pixels * 3)};
  if (channels_ == 3) {
    std::copy(from, from + pixels * 3, image.rgb.begin());
    return image;
  }
  for (std::size_t i = 0; i < pixels; ++i) {
    std::fill_n(image.rgb.begin() + static_cast<std::ptrdiff_t>(3 * i), 3, from[i]);
  }
  return image;
}

// Keeps three of every four values.
std::span<double> without_alpha(std::span<double> values) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (i % 4 != 3) values[kept++] = values[i];
  }
  return values.first(kept);
}

}  // namespace

SliceGeometry::SliceGeometry(const NiftiHeader& header, int patient_axis) {
  const std::size_t across = static_cast<std::size_t>(patient_axis);
  const FileAxis columns = header.orientation[across == 0 ? 1 : 0];
  const FileAxis rows = header.orientation[across == 2 ? 1 : 2];
  file_axis = header.orientation[across].axis;
  flipped = header.orientation[across].flipped;
  slices = header.size[at(file_axis)];
  width = header.size[at(columns.axis)];
  height = header.size[at(rows.axis)];
  step[at(columns.axis)] = columns.flipped ? -1 : 1;
  step[at(rows.axis)] = rows.flipped ? width : -width;
  origin = (columns.flipped ? width - 1 : 0) + (rows.flipped ? 0 : (height - 1) * width);
  spacing_mm = {header.spacing_mm[at(rows.axis)], header.spacing_mm[at(columns.axis)]};
}

// A block that is cut off is tried in halves.
void for_each_value(VolumeBytes& bytes, const NiftiHeader& header, const ValueBlock& visit) {
  const std::size_t size = header.type.value_bytes();
  const auto values = static_cast<std::size_t>(header.type.values);
  std::size_t block_voxels = kBlockBytes / 16;
  std::vector<std::byte> block;
  std::vector<double> doubles;
  std::uint64_t offset = header.offset;
  auto left = static_cast<std::uint64_t>(header.volume_voxels() * header.times *
                                         std::min<std::int64_t>(3, header.components));
  while (left > 0 && block_voxels > 0) {
    const std::size_t voxels = std::min<std::uint64_t>(left, block_voxels);
    block.resize(voxels * values * size);
    doubles.resize(voxels * values);
    try {
      bytes.read_at(offset, block);
    } catch (const DataError&) {
      if (bytes.compressed()) throw;
      block_voxels = voxels / 2;
      continue;
    }
    to_machine_order(block, header);
    convert(block, header.type.number, std::span(doubles));
    visit(values == 4 ? without_alpha(doubles) : std::span<double>(doubles));
    offset += block.size();
    left -= voxels;
  }
  if (left == 0) bytes.finish(header.data_end());
}

void read_slices(VolumeBytes& bytes, const NiftiHeader& header, const SliceGeometry& geometry,
                 std::int64_t time, std::span<const std::int64_t> slices, const ValueRange& range,
                 const std::function<void(Image&&, double finite)>& sink) {
  Gatherer gatherer(bytes, header, geometry, range);
  const std::size_t at_once = at(gatherer.slices_per_pass());
  if (slices.size() > at_once) {
    bytes.mark(header.offset + static_cast<std::uint64_t>(time * header.volume_voxels()) *
                                   header.type.voxel_bytes());
  }
  for (std::size_t begin = 0; begin < slices.size(); begin += at_once) {
    const auto batch = slices.subspan(begin, std::min(at_once, slices.size() - begin));
    gatherer.gather(time, batch);
    for (std::size_t slot = 0; slot < batch.size(); ++slot)
      sink(gatherer.image(slot), gatherer.finite(slot));
  }
  bytes.finish(header.data_end());
}

}  // namespace coldframe::frames
