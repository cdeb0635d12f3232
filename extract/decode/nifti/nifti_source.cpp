#include <nifti2_io.h>
#include <zlib.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/decode/frame.h"
#include "extract/decode/nifti/nifti_header.h"
#include "extract/decode/source.h"

namespace coldframe::frames {

// Bytes of a volume: its file's, or what they decompress to if they start as gzip does (RFC 1952).

class GzipStream;

class VolumeBytes {
 public:
  explicit VolumeBytes(std::shared_ptr<const ByteSource> source);
  ~VolumeBytes();

  // If true, damage anywhere may spoil all content.
  bool compressed() const { return gzip_ != nullptr; }
  // An upper bound on the content's bytes; too high for compressed data.
  std::uint64_t size_limit() const;
  // Fills `bytes` as far as the content goes and returns how many there were. DataError, without
  // the file's name, for compressed data that is damaged.
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes);
  // Fills all of `bytes`; DataError that says where the content ends otherwise.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes);
  // Reading will come back to `offset`, where decompression then begins anew.
  void mark(std::uint64_t offset);
  // Everything up to `end` was read: verifies what follows of compressed data (its checksum).
  void finish(std::uint64_t end);

 private:
  std::shared_ptr<const ByteSource> source_;
  std::unique_ptr<GzipStream> gzip_;  // nullptr unless it is compressed
};

// Slices of a volume as images, gathered in one sequential pass over each time point.

// The layout of slices across one patient axis: columns run along the first of the other two axes
// (towards right or anterior), rows down along the second (towards posterior or inferior). nibabel
// and numpy lay them out alike by numpy.rot90 of as_closest_canonical(image)'s slice.
struct SliceGeometry {
  SliceGeometry(const NiftiHeader& header, int patient_axis);

  int file_axis = 2;        // that the slices are across
  std::int64_t slices = 1;  // along it
  bool flipped = false;     // slice 0 is the file's last
  std::int64_t width = 1, height = 1;
  std::array<std::int64_t, 3> step{};  // in pixels of the image, by file axis; 0 along file_axis
  std::int64_t origin = 0;             // the pixel of the file's first voxel
  std::array<double, 2> spacing_mm{};  // from row to row, from column to column
};

// All values of the file, unscaled, in its order: reads it once from beginning to end, or to where
// it is truncated. DataError if it is compressed and damaged or cut off.
void for_each_value(VolumeBytes& bytes, const NiftiHeader& header, const ValueBlock& visit);

// The given slices (ascending) of one time point as RGB images, each with Frame::finite. As many as
// fit 64 MiB (at least one) are gathered in one pass over that time point's bytes, however they lie
// in the file, and then handed over; the rest takes further passes. Only the parts of the file that
// hold them are read (a compressed file is inflated from the start of the time point).
void read_slices(VolumeBytes& bytes, const NiftiHeader& header, const SliceGeometry& geometry,
                 std::int64_t time, std::span<const std::int64_t> slices, const ValueRange& range,
                 const std::function<void(Image&&, double finite)>& sink);

namespace {

constexpr std::size_t kStreamBytes = std::size_t{1} << 16;
constexpr std::uint64_t kMaxInflation = 1032;  // of deflate: 258 bytes for 2 bits
constexpr int kGzipWindow = 15 + 16;           // zlib: the largest window, gzip's wrapper

bool starts_as_gzip(const ByteSource& source, std::uint64_t offset) {
  std::array<std::byte, 3> head{};
  return source.read_some(offset, head) == 3 && head[0] == std::byte{0x1f} &&
         head[1] == std::byte{0x8b} && head[2] == std::byte{8};
}

// A z_stream with the place that it has reached.
struct Inflater {
  z_stream stream{};
  std::uint64_t in = 0, out = 0;  // compressed bytes taken, bytes given
  bool at_end = false;

  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  Inflater(Inflater& other) : in(other.in), out(other.out), at_end(other.at_end) {
    if (inflateCopy(&stream, &other.stream) != Z_OK) throw std::bad_alloc();
  }
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

// Goes forward only; back means from the mark, or from the beginning.
class GzipStream {
 public:
  explicit GzipStream(const ByteSource& source) : source_(source), input_(kStreamBytes) {}

  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes);
  void mark(std::uint64_t offset);
  void finish(std::uint64_t end);

 private:
  void go_to(std::uint64_t offset);
  void restart(std::uint64_t offset);
  std::size_t inflate_some(std::span<std::byte> bytes);
  void fill();

  const ByteSource& source_;
  std::vector<std::byte> input_;
  std::unique_ptr<Inflater> now_, mark_;
};

void GzipStream::restart(std::uint64_t offset) {
  if (mark_ && mark_->out <= offset) {
    now_ = std::make_unique<Inflater>(*mark_);
  } else {
    now_ = std::make_unique<Inflater>();
  }
  now_->stream.avail_in = 0;
}

void GzipStream::fill() {
  const std::size_t count = source_.read_some(now_->in, input_);
  if (count == 0) throw DataError("it is truncated: its gzip data has no end");
  now_->stream.next_in = reinterpret_cast<Bytef*>(input_.data());
  now_->stream.avail_in = static_cast<uInt>(count);
}

std::size_t GzipStream::inflate_some(std::span<std::byte> bytes) {
  if (now_->at_end) return 0;
  z_stream& stream = now_->stream;
  if (stream.avail_in == 0) fill();
  const uInt before = stream.avail_in;
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(std::min(bytes.size(), std::size_t{1} << 30));
  const uInt room = stream.avail_out;
  const int status = inflate(&stream, Z_NO_FLUSH);
  now_->in += before - stream.avail_in;
  now_->out += room - stream.avail_out;
  if (status == Z_STREAM_END) {
    // Several members in a row are one content (RFC 1952, section 2.2).
    now_->at_end = !starts_as_gzip(source_, now_->in);
    if (!now_->at_end) inflateReset(&stream);
  } else if (status != Z_OK) {
    throw DataError(concat("its gzip data is damaged at byte ", now_->in));
  }
  return room - stream.avail_out;
}

void GzipStream::go_to(std::uint64_t offset) {
  if (!now_ || offset < now_->out) restart(offset);
  std::vector<std::byte> dropped(kStreamBytes);
  while (now_->out < offset && !now_->at_end) {
    inflate_some(
        std::span(dropped).first(std::min<std::uint64_t>(kStreamBytes, offset - now_->out)));
  }
}

std::size_t GzipStream::read_some(std::uint64_t offset, std::span<std::byte> bytes) {
  go_to(offset);
  if (now_->out != offset) return 0;
  std::size_t count = 0;
  while (count < bytes.size() && !now_->at_end) count += inflate_some(bytes.subspan(count));
  return count;
}

void GzipStream::mark(std::uint64_t offset) {
  go_to(offset);
  if (now_->out == offset) mark_ = std::make_unique<Inflater>(*now_);
}

void GzipStream::finish(std::uint64_t end) {
  constexpr std::uint64_t kMaxTail = 1 << 20;
  if (!now_ || now_->out != end) return;
  std::vector<std::byte> dropped(kStreamBytes);
  while (!now_->at_end && now_->out - end < kMaxTail) inflate_some(dropped);
}

VolumeBytes::VolumeBytes(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {
  if (starts_as_gzip(*source_, 0)) gzip_ = std::make_unique<GzipStream>(*source_);
}

VolumeBytes::~VolumeBytes() = default;

std::uint64_t VolumeBytes::size_limit() const {
  const std::uint64_t size = source_->size();
  if (gzip_ == nullptr) return size;
  return size > UINT64_MAX / kMaxInflation ? UINT64_MAX : size * kMaxInflation;
}

std::size_t VolumeBytes::read_some(std::uint64_t offset, std::span<std::byte> bytes) {
  return gzip_ != nullptr ? gzip_->read_some(offset, bytes) : source_->read_some(offset, bytes);
}

void VolumeBytes::read_at(std::uint64_t offset, std::span<std::byte> bytes) {
  const std::size_t count = read_some(offset, bytes);
  if (count < bytes.size()) {
    throw DataError(concat("it is truncated: its content ends at byte ", offset + count,
                           " of at least ", offset + bytes.size()));
  }
}

void VolumeBytes::mark(std::uint64_t offset) {
  if (gzip_ != nullptr) gzip_->mark(offset);
}

void VolumeBytes::finish(std::uint64_t end) {
  if (gzip_ != nullptr) gzip_->finish(end);
}

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
  std::vector<FiniteFraction> finite_;  // by slot
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

// A block that is truncated is tried in halves.
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

// NIfTI volumes as clips: a 3-D volume's slices, or for each time point of a 4-D one its slices.

namespace {

constexpr std::int64_t kMaxFrames = std::int64_t{1} << 20;
constexpr std::string_view kAxisNames = "xyz";

std::string read_header_bytes(VolumeBytes& bytes) {
  std::string head(kNiftiHeaderBytes, '\0');
  head.resize(bytes.read_some(0, std::as_writable_bytes(std::span(head))));
  return head;
}

// Decompresses `head`, the first bytes of a gzip file.
std::string inflated_head(std::string_view head) {
  try {
    VolumeBytes bytes(std::make_shared<MemoryBytes>(std::string(head)));
    return read_header_bytes(bytes);
  } catch (const DataError&) {
    return {};
  }
}

bool calls_itself_nifti(const std::filesystem::path& path) {
  const std::string name = lower(path.filename().string());
  return name.ends_with(".nii") || name.ends_with(".nii.gz");
}

std::filesystem::path voxels_of(const std::filesystem::path& header) {
  std::filesystem::path path = voxel_file(header);
  if (!path.empty()) return path;
  throw DataError(
      "its voxels are in a file of the same name that ends with .img, which is not there");
}

class NiftiSource : public FileSource {
 public:
  NiftiSource(const SourceFile& file, const ReaderOptions& options)
      : FileSource("volume", file), voxels_(file), options_(options) {
    guarded([&] {
      header_ = parse_nifti_header(read_header_bytes(*open()));
      if (header_.is_pair) {
        voxels_ = file.beside(voxels_of(file.path()));
        name_ += concat(" with '", voxels_.path().string(), "'");
      }
      geometry_.emplace(header_, options.axis);
      check_size();
      choose_slices();
      range_ = stated_range();
    });
  }

  std::int64_t frame_count() override { return header_.times * slices(); }
  double time_s(std::int64_t index) const override {
    if (header_.times == 1) return kNotStated;
    return static_cast<double>(index / slices()) * header_.interval_s;
  }
  std::vector<std::string> notes() const override {
    std::vector<std::string> notes;
    if (header_.may_be_colour())
      notes.emplace_back(
          "the fourth dimension's bytes are read as times; a colour is intent code 2003, or in "
          "dimension 5");
    if (header_.is_sform_singular) notes.emplace_back("its sform is singular, and the qform holds");
    return notes;
  }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

  bool wants_range() const override { return !range_; }
  void survey(ValueSurvey& survey) override;
  void set_range(const ValueRange& range) override { range_ = range; }
  Window range_window(const Window& asked) const override;
  bool finds_range_alone() const override { return true; }
  bool holds_floats() const override { return is_float(header_.type.number); }

  std::vector<Plane> planes() const override;
  void read_planes(const std::function<void(std::span<const double>)>& sink) override;

 private:
  std::unique_ptr<VolumeBytes> open() const {
    return std::make_unique<VolumeBytes>(voxels_.open());
  }
  void check_size() const;
  bool is_in_file_order() const {
    return geometry_->file_axis == 2 && !geometry_->flipped && header_.components == 1;
  }
  bool is_worth_reading(std::uint64_t limit) const;
  void choose_slices();
  std::optional<ValueRange> stated_range() const;
  void find_range(VolumeBytes& bytes);
  std::int64_t slices() const { return static_cast<std::int64_t>(slices_.size()); }

  SourceFile voxels_;  // next to the header if they are a pair
  ReaderOptions options_;
  NiftiHeader header_;
  std::optional<SliceGeometry> geometry_;
  std::vector<std::int64_t> slices_;  // that are frames, ascending
  std::optional<ValueRange> range_;   // stated, or found in the values of the exam's files
};

// True for a volume that is truncated after some of its slices, uncompressed. A header that asks
// for far more than is there is damaged itself.
bool NiftiSource::is_worth_reading(std::uint64_t limit) const {
  constexpr std::uint64_t kMinPart = 64;
  if (open()->compressed() || limit <= header_.offset) return false;
  const auto [nx, ny, nz] = header_.size;
  const std::uint64_t there = limit - header_.offset;
  return there >= static_cast<std::uint64_t>(nx * ny) * header_.type.voxel_bytes() &&
         there >= (header_.data_end() - header_.offset) / kMinPart;
}

void NiftiSource::check_size() const {
  const std::uint64_t limit = open()->size_limit();
  if (header_.data_end() > limit && !is_worth_reading(limit)) {
    throw DataError(concat("it is truncated: its header asks for ", header_.data_end(),
                           " bytes, and it holds at most ", limit));
  }
  const std::int64_t width = geometry_->width, height = geometry_->height;
  if (width > kMaxSide || height > kMaxSide || width * height > kMaxPixels) {
    throw DataError(concat("its slices have ", width, "×", height, " voxels; at most ", kMaxSide,
                           " a side and ", kMaxPixels, " in all are read"));
  }
}

void NiftiSource::choose_slices() {
  const SliceRange& wanted = options_.slices;
  const std::int64_t available = geometry_->slices;
  const std::int64_t end = wanted.end < 0 ? available : wanted.end;
  if (wanted.begin < 0 || wanted.begin >= end || end > available || wanted.step < 1) {
    throw DataError(concat("it has ", plural(available, "slice"), " along ",
                           kAxisNames[static_cast<std::size_t>(options_.axis)], "; --slices asks ",
                           "for ", wanted.begin, " to ", end, " (they count from 0)"));
  }
  const std::int64_t count = (end - wanted.begin + wanted.step - 1) / wanted.step;
  if (header_.times > kMaxFrames || count > kMaxFrames / header_.times) {
    throw DataError(concat("it has ", header_.times, " time points of ", count, " slices; at most ",
                           kMaxFrames, " frames are read: choose fewer with --slices"));
  }
  for (std::int64_t slice = wanted.begin; slice < end; slice += wanted.step) {
    slices_.push_back(slice);
  }
}

// By --window or the header; nothing where it is to be found in the values.
std::optional<ValueRange> NiftiSource::stated_range() const {
  const Window& window = options_.window;
  if (window.kind == Window::Kind::kFixed)
    return ValueRange{window.center - window.width / 2, window.center + window.width / 2};
  if (window.kind == Window::Kind::kPercentiles) return std::nullopt;
  if (!header_.type.is_colour() && std::isfinite(header_.cal_min) &&
      std::isfinite(header_.cal_max) && header_.cal_min < header_.cal_max)
    return ValueRange{header_.cal_min, header_.cal_max};
  if (header_.holds_levels()) return ValueRange{0, 255};
  return std::nullopt;
}

// Percentiles where the file states nothing either: a few odd voxels are often far from all others.
Window NiftiSource::range_window(const Window& asked) const {
  Window window = asked;
  window.kind = Window::Kind::kPercentiles;
  return window;
}

// Of the whole file, for one that is an exam by itself.
void NiftiSource::find_range(VolumeBytes& bytes) {
  const ValuePass pass = [&](const ValueBlock& visit) { for_each_value(bytes, header_, visit); };
  range_ = percentile_range(pass, header_.type.number, header_.rescale, options_.window);
  if (!range_) throw DataError("none of its values is a finite number");
}

// Values of up to 16 bits are counted in a table, which is ten times faster.
void NiftiSource::survey(ValueSurvey& survey) {
  constexpr int kLeast = -(1 << 15);
  constexpr std::size_t kValues = 3u << 15;  // of signed and unsigned ones
  const bool tabled = header_.type.value_bytes() <= 2;
  std::vector<std::uint64_t> counts(tabled ? kValues : 0);
  ValueSurvey own;
  guarded([&] {
    for_each_value(*open(), header_, [&](std::span<const double> block) {
      for (const double value : block) {
        if (tabled)
          ++counts[static_cast<std::size_t>(static_cast<int>(value) - kLeast)];
        else
          own.add(header_.rescale(value));
      }
    });
  });
  for (std::size_t i = 0; i < counts.size(); ++i)
    own.add(header_.rescale(static_cast<int>(i) + kLeast), counts[i]);
  survey.add(own);
}

void NiftiSource::read(std::span<const std::int64_t> indices,
                       const std::function<void(Frame&&)>& sink) {
  if (indices.empty()) return;
  std::unique_ptr<VolumeBytes> bytes;
  try {
    guarded([&] {
      bytes = open();
      if (!range_) find_range(*bytes);
    });
  } catch (const DataError& error) {
    throw UnreadableFromHere(error.what());
  }
  for (std::size_t begin = 0; begin < indices.size();) {
    const std::int64_t time = indices[begin] / slices();
    std::vector<std::int64_t> wanted;
    std::size_t end = begin;
    for (; end < indices.size() && indices[end] / slices() == time; ++end) {
      wanted.push_back(slices_[static_cast<std::size_t>(indices[end] % slices())]);
    }
    std::size_t at = begin;
    const auto hand_over = [&](Image&& image, double finite) {
      const std::int64_t index = indices[at++];
      sink(Frame{index, time_s(index), std::move(image), geometry_->spacing_mm, std::nullopt,
                 finite});
    };
    const auto read_some = [&](std::span<const std::int64_t> some) {
      read_slices(*bytes, header_, *geometry_, time, some, *range_, hand_over);
    };
    try {
      guarded([&] {
        try {
          read_some(wanted);
        } catch (const DataError&) {  // of slices that are gathered together some may be whole
          if (at == end || bytes->compressed()) throw;
          while (at < end) read_some(std::span(wanted).subspan(at - begin, 1));
        }
      });
    } catch (const DataError& error) {
      if (bytes->compressed() && at > 0) throw CorruptFile(error.what());
      if (bytes->compressed() || is_in_file_order()) throw UnreadableFromHere(error.what());
      throw;
    }
    begin = end;
  }
}

// In the file's order, along its slowest axis.
std::vector<Plane> NiftiSource::planes() const {
  return guarded([&] {
    if (header_.type.is_colour() || header_.components > 1)
      throw DataError("it is a colour image, and a volume has one value at each place");
    if (header_.times > 1)
      throw DataError(concat("it holds ", header_.times,
                             " volumes over time; a volume is read of files of one time: split it "
                             "(fslsplit, nibabel.four_to_three) and make an exam of each"));
    std::vector<Plane> planes;
    for (std::int64_t k = 0; k < header_.size[2]; ++k) {
      Plane& plane = planes.emplace_back();
      plane = {header_.size[0], header_.size[1], header_.origin,
               header_.axes[0], header_.axes[1], header_.axes[2]};
      for (std::size_t i = 0; i < 3; ++i)
        plane.origin[i] += static_cast<double>(k) * header_.axes[2][i];
    }
    return planes;
  });
}

void NiftiSource::read_planes(const std::function<void(std::span<const double>)>& sink) {
  guarded([&] {
    const auto voxels = at(header_.size[0] * header_.size[1]);
    std::vector<double> plane;
    std::int64_t given = 0;
    for_each_value(*open(), header_, [&](std::span<const double> block) {
      while (!block.empty()) {
        const std::size_t count = std::min(block.size(), voxels - plane.size());
        for (const double value : block.first(count)) plane.push_back(header_.rescale(value));
        block = block.subspan(count);
        if (plane.size() < voxels) continue;
        sink(plane);
        plane.clear();
        ++given;
      }
    });
    if (given < header_.size[2])
      throw DataError(concat("it is truncated: ", given, " of its ", header_.size[2],
                             " slices are there, and a volume is read whole or not at all"));
  });
}

bool detect_nifti(const SourceFile& file) {
  const std::string_view head = file.head();
  if (calls_itself_nifti(file.path()) || is_nifti_header(head)) return true;
  return head.starts_with("\x1f\x8b") && is_nifti_header(inflated_head(head));
}

}  // namespace

extern const SourceKind kNiftiKind;
constinit const SourceKind kNiftiKind{.name = "nifti",
                                      .contents = "NIfTI",
                                      .other_suffixes = ".nii .nii.gz .hdr .hdr.gz .img .img.gz",
                                      .detect = detect_nifti,
                                      .open = open_as<NiftiSource>};

}  // namespace coldframe::frames
