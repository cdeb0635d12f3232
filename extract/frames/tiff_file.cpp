// Sources: TIFF 6.0 specification (Adobe, 1992); libtiff's TIFFClientOpen and TIFFReadScanline.
#include "extract/frames/tiff_file.h"

#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <mutex>

#include "common/error.h"
#include "common/text.h"

namespace coldframe::frames {

struct TiffCallbacks {
  using Stream = TiffFile::Stream;
  static tmsize_t read(thandle_t handle, void* data, tmsize_t count) {
    auto& stream = *static_cast<Stream*>(handle);
    try {
      const std::size_t got = stream.file.read_some(
          stream.position, {static_cast<std::byte*>(data), static_cast<std::size_t>(count)});
      stream.position += got;
      return static_cast<tmsize_t>(got);
    } catch (const Error&) {
      return -1;  // libtiff is C: no exception may pass through it
    }
  }
  static tmsize_t write(thandle_t, void*, tmsize_t) { return -1; }
  static toff_t seek(thandle_t handle, toff_t offset, int whence) {
    auto& stream = *static_cast<Stream*>(handle);
    const std::uint64_t base = whence == SEEK_SET   ? 0
                               : whence == SEEK_CUR ? stream.position
                                                    : stream.file.size();
    return stream.position = base + offset;
  }
  static int close(thandle_t) { return 0; }
  static toff_t size(thandle_t handle) { return static_cast<Stream*>(handle)->file.size(); }
};

namespace {

constexpr std::int64_t kMaxSide = 65535, kMaxPixels = std::int64_t{1} << 28;
constexpr std::size_t kMaxPages = std::size_t{1} << 16;

// What goes wrong is reported by us, with the file's name.
void silence_libtiff() {
  static std::once_flag once;
  std::call_once(once, [] {
    TIFFSetErrorHandler(nullptr);
    TIFFSetWarningHandler(nullptr);
  });
}

[[noreturn]] void damaged() {
  throw DataError("its TIFF data is damaged or truncated and cannot be decoded");
}

double value_at(const std::byte* raw, std::int64_t index, int bits, Depth depth) {
  const auto at = static_cast<std::size_t>(index);
  if (bits == 1) {
    return std::to_integer<int>(raw[at / 8] >> (7 - at % 8) & std::byte{1}) * 255.0;
  }
  if (bits == 8) return std::to_integer<int>(raw[at]);
  if (depth == Depth::kFloat) {
    float value = 0;
    std::memcpy(&value, raw + 4 * at, sizeof value);
    return static_cast<double>(value);
  }
  std::uint16_t value = 0;
  std::memcpy(&value, raw + 2 * at, sizeof value);
  return value;
}

}  // namespace

void TiffFile::Close::operator()(tiff* file) const {
  TIFFClose(file);
}

TiffFile::TiffFile(const std::filesystem::path& path) : stream_(new Stream{InputFile(path)}) {
  silence_libtiff();
  using Callbacks = TiffCallbacks;
  tiff_.reset(TIFFClientOpen("tiff", "rm", stream_.get(), Callbacks::read, Callbacks::write,
                             Callbacks::seek, Callbacks::close, Callbacks::size, nullptr, nullptr));
  if (!tiff_) damaged();
}

std::vector<std::uint64_t> TiffFile::pages() {
  std::vector<std::uint64_t> offsets{TIFFCurrentDirOffset(tiff_.get())};
  while (!TIFFLastDirectory(tiff_.get())) {
    if (TIFFReadDirectory(tiff_.get()) == 0) {
      throw DataError(concat("the directory of page ", offsets.size(),
                             " is damaged or truncated (they count from 0)"));
    }
    if (offsets.size() == kMaxPages) throw DataError("it has more than 65536 pages");
    offsets.push_back(TIFFCurrentDirOffset(tiff_.get()));
  }
  return offsets;
}

std::uint32_t TiffFile::field(std::uint32_t tag, std::uint32_t otherwise) const {
  if (tag == TIFFTAG_IMAGEWIDTH || tag == TIFFTAG_IMAGELENGTH) {
    std::uint32_t value = 0;
    return TIFFGetField(tiff_.get(), tag, &value) == 1 ? value : otherwise;
  }
  std::uint16_t value = 0;
  return TIFFGetFieldDefaulted(tiff_.get(), tag, &value) == 1 ? value : otherwise;
}

TiffPage TiffFile::open_page(std::uint64_t directory) {
  if (TIFFCurrentDirOffset(tiff_.get()) != directory &&
      TIFFSetSubDirectory(tiff_.get(), directory) == 0) {
    damaged();
  }
  page_ = {field(TIFFTAG_IMAGEWIDTH, 0), field(TIFFTAG_IMAGELENGTH, 0), 1, Depth::k8,
           static_cast<int>(field(TIFFTAG_ORIENTATION, ORIENTATION_TOPLEFT))};
  bits_ = static_cast<int>(field(TIFFTAG_BITSPERSAMPLE, 1));
  samples_ = static_cast<int>(field(TIFFTAG_SAMPLESPERPIXEL, 1));
  photometric_ = field(TIFFTAG_PHOTOMETRIC, PHOTOMETRIC_MINISBLACK);
  check_page();
  const bool is_float = field(TIFFTAG_SAMPLEFORMAT, SAMPLEFORMAT_UINT) == SAMPLEFORMAT_IEEEFP;
  page_.depth = is_float ? Depth::kFloat : bits_ == 16 ? Depth::k16 : Depth::k8;
  if (photometric_ == PHOTOMETRIC_RGB || photometric_ == PHOTOMETRIC_PALETTE) page_.channels = 3;
  if (photometric_ == PHOTOMETRIC_PALETTE) read_palette();
  return page_;
}

void TiffFile::check_page() {
  const auto require = [](const char* what, std::uint32_t found,
                          std::initializer_list<std::uint32_t> allowed) {
    if (std::find(allowed.begin(), allowed.end(), found) != allowed.end()) return;
    throw DataError(concat("its TIFF ", what, " is ", found,
                           ", which is not read; convert it to 8- or 16-bit grey or RGB"));
  };
  if (page_.width < 1 || page_.height < 1 || page_.width > kMaxSide || page_.height > kMaxSide ||
      page_.width * page_.height > kMaxPixels) {
    throw DataError(concat("its header gives a size of ", page_.width, "×", page_.height,
                           " pixels; at most ", kMaxSide, " a side and ", kMaxPixels,
                           " in all are read"));
  }
  const bool is_float = field(TIFFTAG_SAMPLEFORMAT, 1) == SAMPLEFORMAT_IEEEFP;
  require("sample format", field(TIFFTAG_SAMPLEFORMAT, 1),
          {SAMPLEFORMAT_UINT, SAMPLEFORMAT_IEEEFP});
  if (is_float) {
    require("number of bits per float", static_cast<std::uint32_t>(bits_), {32});
  } else {
    require("number of bits per sample", static_cast<std::uint32_t>(bits_), {1, 8, 16});
  }
  require("photometric interpretation", photometric_, {0, 1, 2, 3});
  const auto samples = static_cast<std::uint32_t>(samples_);
  if (photometric_ == PHOTOMETRIC_RGB) {
    require("number of samples per pixel", samples, {3, 4});
  } else {
    require("number of samples per pixel", samples, {1, 2});
  }
  if (bits_ == 1) require("number of 1-bit samples per pixel", samples, {1});
  if (photometric_ == PHOTOMETRIC_PALETTE) {
    require("number of bits of a palette", static_cast<std::uint32_t>(bits_), {8});
  }
  require("planar configuration", field(TIFFTAG_PLANARCONFIG, 1), {PLANARCONFIG_CONTIG});
  require("compression", field(TIFFTAG_COMPRESSION, 1),
          {COMPRESSION_NONE, COMPRESSION_LZW, COMPRESSION_ADOBE_DEFLATE, COMPRESSION_DEFLATE,
           COMPRESSION_PACKBITS});
}

void TiffFile::read_palette() {
  std::uint16_t *red = nullptr, *green = nullptr, *blue = nullptr;
  if (TIFFGetField(tiff_.get(), TIFFTAG_COLORMAP, &red, &green, &blue) != 1) {
    throw DataError("its TIFF palette is missing");
  }
  palette_.clear();
  for (int entry = 0; entry < 256; ++entry) {
    for (const std::uint16_t* map : {red, green, blue}) palette_.push_back(map[entry] / 256);
  }
}

// From samples to the row that is handed over.
void TiffFile::hand_over(const std::byte* raw) {
  const double white = page_.depth == Depth::k16 ? 65535 : 255;
  const bool invert = photometric_ == PHOTOMETRIC_MINISWHITE && page_.depth != Depth::kFloat;
  double* to = row_.data();
  for (std::int64_t x = 0; x < page_.width; ++x) {
    for (int channel = 0; channel < page_.channels; ++channel) {
      if (photometric_ == PHOTOMETRIC_PALETTE) {
        const auto entry = static_cast<std::size_t>(raw[x * samples_]);
        *to++ = palette_[3 * entry + static_cast<std::size_t>(channel)];
      } else {
        const double value = value_at(raw, x * samples_ + channel, bits_, page_.depth);
        *to++ = invert ? white - value : value;
      }
    }
  }
}

void TiffFile::read_rows(
    const std::function<void(std::int64_t y, std::span<const double>)>& visit) {
  tiff* const file = tiff_.get();
  row_.resize(static_cast<std::size_t>(page_.width * page_.channels));
  if (TIFFIsTiled(file) != 0) {
    throw DataError("it is a tiled TIFF, which is not read; save it in strips");
  }
  const std::int64_t needed = (page_.width * samples_ * bits_ + 7) / 8;
  const tmsize_t size = TIFFScanlineSize(file);
  if (size < needed) damaged();
  std::vector<std::byte> line(static_cast<std::size_t>(size));
  for (std::int64_t y = 0; y < page_.height; ++y) {
    if (TIFFReadScanline(file, line.data(), static_cast<std::uint32_t>(y), 0) != 1) damaged();
    hand_over(line.data());
    visit(y, row_);
  }
}

}  // namespace coldframe::frames
