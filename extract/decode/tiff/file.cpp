// Sources: TIFF 6.0 specification (Adobe, 1992), sections 8 and 15; libtiff's TIFFReadScanline,
// TIFFReadEncodedStrip and TIFFReadEncodedTile.
#include "extract/decode/tiff/file.h"

#include <tiffio.h>

#include <algorithm>
#include <bit>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/text/text.h"
#include "extract/decode/frame.h"
#include "extract/decode/image/still_formats.h"

namespace coldframe::frames {

namespace {

std::uint32_t field(tiff* file, std::uint32_t tag) {
  std::uint32_t value = 0;
  return TIFFGetFieldDefaulted(file, tag, &value) == 1 ? value : 0;
}

std::size_t size_of(tmsize_t bytes, std::size_t least) {
  if (bytes <= 0 || static_cast<std::size_t>(bytes) < least) damaged_tiff();
  return static_cast<std::size_t>(bytes);
}

// Strips of whole pixels: libtiff decodes them row by row, so that one row is all that is held.
void read_scanlines(tiff* file, const TiffLayout& layout,
                    const std::function<void(std::int64_t, const std::byte*)>& visit) {
  std::vector<std::byte> line(size_of(TIFFScanlineSize(file), layout.row_bytes()));
  for (std::int64_t y = 0; y < layout.height; ++y) {
    if (TIFFReadScanline(file, line.data(), static_cast<std::uint32_t>(y), 0) != 1) damaged_tiff();
    visit(y, line.data());
  }
}

// The rows of one row of tiles, or of one strip of every plane.
class Band {
 public:
  Band(tiff* file, const TiffLayout& layout);

  std::int64_t rows() const { return rows_; }
  void read(std::int64_t y);
  const std::byte* row(std::int64_t y) const {  // counted from the first one that was read
    return bytes_.data() + static_cast<std::size_t>(y) * layout_.row_bytes();
  }

 private:
  void decode(std::int64_t x, std::int64_t y, std::uint16_t plane);
  void place(const std::byte* samples, std::int64_t x, std::byte* row, std::size_t plane) const;

  tiff* file_;
  TiffLayout layout_;
  bool is_tiled_;
  std::size_t planes_;
  std::int64_t rows_ = 0, width_ = 0;  // of a band; of a tile, or of the page
  std::size_t stride_ = 0;             // bytes of a row of a tile, or of a strip
  std::vector<std::byte> bytes_, chunk_;
};

Band::Band(tiff* file, const TiffLayout& layout)
    : file_(file), layout_(layout), is_tiled_(TIFFIsTiled(file) != 0) {
  std::uint16_t planar = 0;
  TIFFGetFieldDefaulted(file, TIFFTAG_PLANARCONFIG, &planar);
  planes_ = planar == PLANARCONFIG_SEPARATE ? static_cast<std::size_t>(layout.samples) : 1;
  width_ = is_tiled_ ? field(file, TIFFTAG_TILEWIDTH) : layout.width;
  rows_ = field(file, is_tiled_ ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP);
  if (rows_ < 1 || width_ < 1) damaged_tiff();
  // Tiles are a multiple of 16 pixels wide (TIFF 6.0, section 15); here a row of one is whole
  // bytes.
  if (width_ < layout.width && width_ * layout.bits % 8 != 0) damaged_tiff();
  rows_ = std::min(rows_, layout.height);
  TiffLayout part = layout;
  part.width = width_;
  part.samples /= static_cast<int>(planes_);
  stride_ = size_of(is_tiled_ ? TIFFTileRowSize(file) : TIFFScanlineSize(file), part.row_bytes());
  chunk_.resize(size_of(
      is_tiled_ ? TIFFTileSize(file) : TIFFVStripSize(file, static_cast<std::uint32_t>(rows_)),
      stride_ * static_cast<std::size_t>(rows_)));
  bytes_.resize(static_cast<std::size_t>(rows_) * layout.row_bytes());
}

// The last strip may be shorter than the others; tiles are whole.
void Band::decode(std::int64_t x, std::int64_t y, std::uint16_t plane) {
  const auto column = static_cast<std::uint32_t>(x), row = static_cast<std::uint32_t>(y);
  const auto room = static_cast<tmsize_t>(chunk_.size());
  const tmsize_t wanted =
      is_tiled_ ? room : static_cast<tmsize_t>(stride_) * std::min(rows_, layout_.height - y);
  const tmsize_t size =
      is_tiled_
          ? TIFFReadEncodedTile(file_, TIFFComputeTile(file_, column, row, 0, plane), chunk_.data(),
                                room)
          : TIFFReadEncodedStrip(file_, TIFFComputeStrip(file_, row, plane), chunk_.data(), room);
  if (size < wanted) damaged_tiff();
}

void Band::place(const std::byte* samples, std::int64_t x, std::byte* row,
                 std::size_t plane) const {
  TiffLayout before = layout_, shown = layout_;
  before.width = x;
  shown.width = std::min(width_, layout_.width - x);
  if (planes_ == 1) {
    std::memcpy(row + before.row_bytes(), samples, shown.row_bytes());
    return;
  }
  const auto bytes = static_cast<std::size_t>(layout_.bits) / 8;
  std::byte* to = row + before.row_bytes() + plane * bytes;
  for (std::int64_t i = 0; i < shown.width; ++i, samples += bytes, to += planes_ * bytes)
    std::memcpy(to, samples, bytes);
}

void Band::read(std::int64_t y) {
  const std::int64_t count = std::min(rows_, layout_.height - y);
  for (std::uint16_t plane = 0; plane < planes_; ++plane) {
    for (std::int64_t x = 0; x < layout_.width; x += width_) {
      decode(x, y, plane);
      for (std::int64_t row = 0; row < count; ++row) {
        const auto at = static_cast<std::size_t>(row);
        place(chunk_.data() + at * stride_, x, bytes_.data() + at * layout_.row_bytes(), plane);
      }
    }
  }
}

}  // namespace

void damaged_tiff() {
  throw DataError("its TIFF data is damaged or truncated and cannot be decoded");
}

void read_tiff_rows(tiff* file, const TiffLayout& layout,
                    const std::function<void(std::int64_t, const std::byte*)>& visit) {
  std::uint16_t planar = 0;
  TIFFGetFieldDefaulted(file, TIFFTAG_PLANARCONFIG, &planar);
  if (TIFFIsTiled(file) == 0 && (planar == PLANARCONFIG_CONTIG || layout.samples == 1)) {
    return read_scanlines(file, layout, visit);
  }
  Band band(file, layout);
  for (std::int64_t y = 0; y < layout.height; y += band.rows()) {
    band.read(y);
    const std::int64_t count = std::min(band.rows(), layout.height - y);
    for (std::int64_t row = 0; row < count; ++row) visit(y + row, band.row(row));
  }
}

// Sources: TIFF 6.0 specification (Adobe, 1992); libtiff's TIFFClientOpenExt and TIFFOpenOptions.

struct TiffCallbacks {
  using Stream = TiffFile::Stream;
  static tmsize_t read(thandle_t handle, void* data, tmsize_t count) {
    auto& stream = *static_cast<Stream*>(handle);
    return stream.kept.guard(tmsize_t{-1}, [&] {
      const std::size_t got =
          stream.file->read_some(stream.position + stream.ahead,
                                 {static_cast<std::byte*>(data), static_cast<std::size_t>(count)});
      stream.position += got;
      return static_cast<tmsize_t>(got);
    });
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) noexcept { return -1; }
  static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    auto& stream = *static_cast<Stream*>(handle);
    return stream.kept.guard(static_cast<toff_t>(-1), [&] {
      const std::uint64_t base = whence == SEEK_SET   ? 0
                                 : whence == SEEK_CUR ? stream.position
                                                      : stream.file->size();
      return stream.position = base + offset;
    });
  }
  static int close(thandle_t) noexcept { return 0; }
  static toff_t size(thandle_t handle) {
    auto& stream = *static_cast<Stream*>(handle);
    return stream.kept.guard(toff_t{0}, [&] { return stream.file->size(); });
  }

  // Prints nothing: we report what goes wrong, with the file's name.
  static int error(tiff*, void*, const char*, const char*, std::va_list) noexcept { return 1; }
  // libjpeg only warns of the pixels that it makes up where data is missing.
  static int warn(tiff*, void* stream, const char*, const char* format,
                  std::va_list values) noexcept {
    char text[256] = {};
    std::vsnprintf(text, sizeof text, format, values);
    for (const char* damage : {"remature end", "bad Huffman", "bad arithmetic"}) {
      if (std::strstr(text, damage) != nullptr) static_cast<Stream*>(stream)->is_damaged = true;
    }
    return 1;
  }
};

namespace {

constexpr std::size_t kMaxPages = std::size_t{1} << 16;

// The most bytes that one byte of the file can become.
std::uint64_t inflation(std::uint32_t compression) {
  switch (compression) {
    case COMPRESSION_NONE:
      return 1;
    case COMPRESSION_PACKBITS:
      return 64;  // 128 bytes for 2
    case COMPRESSION_JPEG:
      return 2048;  // a bit for a block, six blocks for 256 pixels: 1024 for 1
    default:
      return 1400;  // LZW's longest strings; deflate's are 258 bytes for 2 bits
  }
}

void require(const char* what, std::uint32_t found, std::initializer_list<std::uint32_t> allowed) {
  if (std::find(allowed.begin(), allowed.end(), found) != allowed.end()) return;
  throw DataError(concat("its TIFF ", what, " is ", found,
                         ", which is not read; convert it to 8- or 16-bit grey or RGB"));
}

std::uint8_t bits_at(const std::byte* raw, std::size_t index, int bits) {
  const std::size_t at = index * static_cast<std::size_t>(bits);
  const int shift = 8 - bits - static_cast<int>(at % 8);
  return static_cast<std::uint8_t>(std::to_integer<unsigned>(raw[at / 8]) >> shift &
                                   ((1u << bits) - 1));
}

template <typename T>
double number_at(const std::byte* raw, std::size_t at) {
  T value{};
  std::memcpy(&value, raw + sizeof(T) * at, sizeof(T));
  return static_cast<double>(value);
}

double value_at(const std::byte* raw, std::size_t at, int bits, std::uint32_t format) {
  if (format == SAMPLEFORMAT_IEEEFP) {
    return bits == 32 ? number_at<float>(raw, at) : number_at<double>(raw, at);
  }
  if (format == SAMPLEFORMAT_INT) {
    if (bits == 8) return number_at<std::int8_t>(raw, at);
    return bits == 16 ? number_at<std::int16_t>(raw, at) : number_at<std::int32_t>(raw, at);
  }
  if (bits <= 8) return bits_at(raw, at, bits) * (255.0 / ((1 << bits) - 1));
  return bits == 16 ? number_at<std::uint16_t>(raw, at) : number_at<std::uint32_t>(raw, at);
}

struct FreeOptions {
  void operator()(TIFFOpenOptions* options) const { TIFFOpenOptionsFree(options); }
};

}  // namespace

void TiffFile::Close::operator()(tiff* file) const {
  TIFFClose(file);
}

TiffFile::TiffFile(std::shared_ptr<const ByteSource> bytes)
    : stream_(new Stream{std::move(bytes)}) {
  using Callbacks = TiffCallbacks;
  constexpr std::uint64_t kLibraryBytes = 16 << 20;
  const std::unique_ptr<TIFFOpenOptions, FreeOptions> options(TIFFOpenOptionsAlloc());
  if (!options) throw std::bad_alloc();
  const std::uint64_t most = kLibraryBytes + stream_->file->size() * inflation(COMPRESSION_LZW);
  TIFFOpenOptionsSetMaxSingleMemAlloc(options.get(), static_cast<tmsize_t>(most));
  TIFFOpenOptionsSetErrorHandlerExtR(options.get(), Callbacks::error, nullptr);
  TIFFOpenOptionsSetWarningHandlerExtR(options.get(), Callbacks::warn, stream_.get());
  tiff_.reset(TIFFClientOpenExt("tiff", "rm", stream_.get(), Callbacks::read, Callbacks::write,
                                Callbacks::seek, Callbacks::close, Callbacks::size, nullptr,
                                nullptr, options.get()));
  stream_->kept.rethrow();
  if (!tiff_) damaged_tiff();
}

bool TiffFile::is_last() const {
  return TIFFLastDirectory(tiff_.get()) != 0;
}

// libtiff takes a directory whose last bytes, the offset of the next one, are cut off for the last.
bool TiffFile::has_whole_directory() const {
  const bool big = TIFFIsBigTIFF(tiff_.get()) != 0;
  const std::uint64_t at = TIFFCurrentDirOffset(tiff_.get());
  const std::string count = stream_->file->read(at, big ? 8 : 2);
  const ByteCursor in(count,
                      TIFFIsBigEndian(tiff_.get()) != 0 ? std::endian::big : std::endian::little);
  const std::uint64_t end = big ? at + 8 + 20 * in.u64(0) + 8 : at + 2 + 12 * in.u16(0) + 4;
  return end <= stream_->file->size();
}

// TIFF 6.0, section 8, NewSubfileType: bit 0 is set for a version of lower resolution of another
// image of the file, bit 2 for a mask.
bool TiffFile::is_frame() const {
  std::uint32_t kind = 0;
  TIFFGetField(tiff_.get(), TIFFTAG_SUBFILETYPE, &kind);
  return (kind & (FILETYPE_REDUCEDIMAGE | FILETYPE_MASK)) == 0;
}

bool TiffFile::has_several_pages() {
  bool found = is_frame();
  for (std::size_t i = 1; i < kMaxPages && !is_last(); ++i) {
    if (TIFFReadDirectory(tiff_.get()) == 0) {
      stream_->kept.rethrow();
      return true;
    }
    if (is_frame() && std::exchange(found, true)) return true;
  }
  return false;
}

// Pages that share their data, which no writer makes, could be of any size together.
std::vector<TiffDirectory> TiffFile::directories(std::string& fault) {
  std::vector<TiffDirectory> found;
  std::size_t frames = 0;
  std::uint64_t least = 0;
  const std::uint64_t first_least = min_bytes();
  for (;;) {
    found.push_back({TIFFCurrentDirOffset(tiff_.get()), is_frame()});
    if (found.back().is_frame) {
      ++frames;
      least += min_bytes();
    }
    if (is_last()) {
      if (!has_whole_directory())
        fault = concat("it is truncated within the directory of page ", found.size() - 1,
                       " (they count from 0)");
      break;
    }
    if (found.size() == kMaxPages) throw DataError("it has more than 65536 pages");
    if (TIFFReadDirectory(tiff_.get()) != 0) continue;
    stream_->kept.rethrow();
    fault = concat("the directory of page ", found.size(),
                   " is damaged or truncated (they count from 0)");
    if (frames == 0) throw DataError(fault);
    break;
  }
  if (std::exchange(frames, std::max<std::size_t>(1, frames)) == 0) least = first_least;
  if (least > stream_->file->size()) {
    throw DataError(concat("it is damaged or truncated: its ", plural(frames, "page"),
                           " cannot lie in ", stream_->file->size(), " bytes"));
  }
  return found;
}

std::string TiffFile::description() const {
  const char* text = nullptr;
  return TIFFGetField(tiff_.get(), TIFFTAG_IMAGEDESCRIPTION, &text) == 1 ? text : "";
}

int TiffFile::samples() const {
  return static_cast<int>(field(TIFFTAG_SAMPLESPERPIXEL, 1));
}

// Of the current directory's samples, where they are plain, all after one another.
std::optional<std::uint64_t> TiffFile::offset_in_one_piece() {
  read_layout();
  const bool in_planes =
      layout_.samples > 1 && field(TIFFTAG_PLANARCONFIG, 1) != PLANARCONFIG_CONTIG;
  if (compression_ != COMPRESSION_NONE || in_planes || TIFFIsTiled(tiff_.get()) != 0)
    return std::nullopt;
  const std::uint32_t strips = TIFFNumberOfStrips(tiff_.get());
  const std::uint64_t first = strips > 0 ? TIFFGetStrileOffset(tiff_.get(), 0) : 0;
  std::uint64_t end = first;
  for (std::uint32_t strip = 0; strip < strips; ++strip) {
    if (TIFFGetStrileOffset(tiff_.get(), strip) != end) return std::nullopt;
    end += TIFFGetStrileByteCount(tiff_.get(), strip);
  }
  return first > 0 && end - first == image_bytes() ? std::optional(first) : std::nullopt;
}

// A file that ends with its first image has the description of others that were left out.
std::int64_t TiffFile::images_behind(std::int64_t stated) {
  if (stated < 2 || !is_last() || !is_frame()) return 1;
  const auto offset = offset_in_one_piece();
  const std::uint64_t size = stream_->file->size();
  constexpr std::uint64_t kPadding = 16;
  if (!offset || *offset > size || image_bytes() + kPadding >= size - *offset) return 1;
  const std::uint64_t there = size - *offset;
  const auto begun = static_cast<std::int64_t>((there + image_bytes() - 1) / image_bytes());
  return std::min(stated, begun);
}

std::uint32_t TiffFile::field(std::uint32_t tag, std::uint32_t otherwise) const {
  if (tag == TIFFTAG_IMAGEWIDTH || tag == TIFFTAG_IMAGELENGTH) {
    std::uint32_t value = 0;
    return TIFFGetField(tiff_.get(), tag, &value) == 1 ? value : otherwise;
  }
  std::uint16_t value = 0;
  return TIFFGetFieldDefaulted(tiff_.get(), tag, &value) == 1 ? value : otherwise;
}

void TiffFile::read_layout() {
  layout_ = {field(TIFFTAG_IMAGEWIDTH, 0), field(TIFFTAG_IMAGELENGTH, 0),
             static_cast<int>(field(TIFFTAG_SAMPLESPERPIXEL, 1)),
             static_cast<int>(field(TIFFTAG_BITSPERSAMPLE, 1))};
  photometric_ = field(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  compression_ = field(TIFFTAG_COMPRESSION, COMPRESSION_NONE);
  format_ = field(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT);
}

// What the current page's samples take where they are plain, in pictures of a size that is read.
std::uint64_t TiffFile::image_bytes() const {
  const auto side = [](std::int64_t value) {
    return static_cast<std::uint64_t>(std::min(value, kMaxSide));
  };
  const auto bits = static_cast<std::uint64_t>(std::min(layout_.bits, 64));
  const auto samples = static_cast<std::uint64_t>(std::min(layout_.samples, 64));
  return (side(layout_.width) * samples * bits + 7) / 8 * side(layout_.height);
}

// The least that the current page takes of the file.
std::uint64_t TiffFile::min_bytes() {
  read_layout();
  return image_bytes() / inflation(compression_);
}

TiffPage TiffFile::open_page(const TiffPlace& place) {
  stream_->ahead = 0;
  // What libtiff keeps of an image's samples must not stand for another's.
  if ((TIFFCurrentDirOffset(tiff_.get()) != place.directory || place.image > 0 || ahead_ > 0) &&
      TIFFSetSubDirectory(tiff_.get(), place.directory) == 0) {
    stream_->kept.rethrow();
    damaged_tiff();
  }
  read_layout();
  ahead_ = static_cast<std::uint64_t>(place.image) * image_bytes();
  page_ = {layout_.width, layout_.height, 1, Depth::k8,
           static_cast<int>(field(TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT))};
  check_size();
  check_variety();
  if (photometric_ == PHOTOMETRIC_YCBCR) {
    TIFFSetField(tiff_.get(), TIFFTAG_JPEGCOLORMODE, JPEGCOLORMODE_RGB);
    photometric_ = PHOTOMETRIC_RGB;
  }
  const bool is_plain = format_ == SAMPLEFORMAT_UINT && layout_.bits <= 16;
  page_.depth = !is_plain ? Depth::kWide : layout_.bits == 16 ? Depth::k16 : Depth::k8;
  if (photometric_ == PHOTOMETRIC_RGB || photometric_ == PHOTOMETRIC_PALETTE) page_.channels = 3;
  if (photometric_ == PHOTOMETRIC_PALETTE) read_palette();
  return page_;
}

void TiffFile::check_size() const {
  frames::check_size({layout_.width, layout_.height});
  // A tile that reaches beyond the picture lies in the file as a whole.
  if (TIFFIsTiled(tiff_.get()) != 0 &&
      TIFFTileSize64(tiff_.get()) / inflation(compression_) > stream_->file->size()) {
    damaged_tiff();
  }
}

bool TiffFile::has_alpha() const {
  std::uint16_t count = 0;
  const std::uint16_t* kinds = nullptr;
  return TIFFGetField(tiff_.get(), TIFFTAG_EXTRASAMPLES, &count, &kinds) == 1 && count > 0 &&
         (kinds[0] == EXTRASAMPLE_ASSOCALPHA || kinds[0] == EXTRASAMPLE_UNASSALPHA);
}

void TiffFile::check_variety() const {
  const auto bits = static_cast<std::uint32_t>(layout_.bits);
  const auto samples = static_cast<std::uint32_t>(layout_.samples);
  require("sample format", format_, {SAMPLEFORMAT_UINT, SAMPLEFORMAT_INT, SAMPLEFORMAT_IEEEFP});
  if (format_ == SAMPLEFORMAT_IEEEFP) {
    require("number of bits per float", bits, {32, 64});
  } else if (format_ == SAMPLEFORMAT_INT) {
    require("number of bits per signed sample", bits, {8, 16, 32});
  } else if (photometric_ == PHOTOMETRIC_PALETTE) {
    require("number of bits of a palette", bits, {1, 2, 4, 8});
  } else {
    require("number of bits per sample", bits, {1, 2, 4, 8, 16, 32});
  }
  if (format_ != SAMPLEFORMAT_UINT || bits == 32) {
    require("photometric interpretation of such samples", photometric_,
            {PHOTOMETRIC_MINISBLACK, PHOTOMETRIC_RGB});
  }
  require("compression", compression_,
          {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,
           COMPRESSION_PACKBITS, COMPRESSION_JPEG});
  if (compression_ == COMPRESSION_JPEG) require("number of bits of JPEG data", bits, {8});
  if (photometric_ == PHOTOMETRIC_YCBCR) {
    require("compression of YCbCr", compression_, {COMPRESSION_JPEG});
    require("planar configuration of YCbCr", field(TIFFTAG_PLANARCONFIG, 1), {PLANARCONFIG_CONTIG});
    require("number of YCbCr samples", samples, {3});
  } else if (photometric_ == PHOTOMETRIC_RGB) {
    require("number of samples per pixel", samples, {3, 4});
  } else {
    require("photometric interpretation", photometric_, {0, 1, 3});
    require("number of samples per pixel", samples, {1, 2});
    if (samples == 2 && !has_alpha())
      throw DataError(
          "its pixels have two samples, and it does not call the second one alpha (ExtraSamples): "
          "perhaps they are two channels; save each channel as a page of its own");
  }
  if (bits < 8) require("number of samples of less than 8 bits", samples, {1});
}

void TiffFile::read_palette() {
  std::uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
  if (TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &red, &green, &blue) != 1) {
    throw DataError("its TIFF palette is missing");
  }
  palette_.clear();
  for (int entry = 0; entry < 1 << layout_.bits; ++entry) {
    for (const std::uint16_t* map : {red, green, blue}) palette_.push_back(map[entry] / 256);
  }
}

// Turns samples into the row that is handed over.
void TiffFile::hand_over(const std::byte* raw) {
  const double white = page_.depth == Depth::k16 ? 65535 : 255;
  const bool invert = photometric_ == PHOTOMETRIC_MINISWHITE;
  const auto samples = static_cast<std::size_t>(layout_.samples);
  const auto channels = static_cast<std::size_t>(page_.channels);
  double* to = row_.data();
  for (std::size_t x = 0; x < static_cast<std::size_t>(page_.width); ++x) {
    for (std::size_t channel = 0; channel < channels; ++channel) {
      if (photometric_ == PHOTOMETRIC_PALETTE) {
        *to++ = palette_[3 * std::size_t{bits_at(raw, x * samples, layout_.bits)} + channel];
      } else {
        const double value = value_at(raw, x * samples + channel, layout_.bits, format_);
        *to++ = invert ? white - value : value;
      }
    }
  }
}

void TiffFile::read_rows(
    const std::function<void(std::int64_t y, std::span<const double>)>& visit) {
  row_.resize(static_cast<std::size_t>(page_.width * page_.channels));
  stream_->ahead = ahead_;
  stream_->kept.call([&] {
    read_tiff_rows(tiff_.get(), layout_, [&](std::int64_t y, const std::byte* raw) {
      hand_over(raw);
      visit(y, row_);
    });
  });
  if (stream_->is_damaged) damaged_tiff();
}

}  // namespace coldframe::frames
