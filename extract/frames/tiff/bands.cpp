// Sources: TIFF 6.0 specification (Adobe, 1992), sections 8 and 15; libtiff's TIFFReadScanline,
// TIFFReadEncodedStrip and TIFFReadEncodedTile.
#include "extract/frames/tiff/bands.h"

#include <tiffio.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/cli/error.h"

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
  const std::byte* row(std::int64_t y);  // counted from the first one that was read

 private:
  void read_tiles(std::int64_t y, std::uint16_t plane);
  void read_strip(std::int64_t y, std::uint16_t plane);
  std::byte* plane_row(std::size_t plane, std::int64_t y) {
    return bytes_.data() +
           (plane * static_cast<std::size_t>(rows_) + static_cast<std::size_t>(y)) * stride_;
  }

  tiff* file_;
  TiffLayout layout_;
  bool is_tiled_;
  std::size_t planes_;
  std::int64_t rows_ = 0;
  std::size_t stride_ = 0;  // bytes of a row of one plane
  std::vector<std::byte> bytes_, chunk_, pixels_;
};

Band::Band(tiff* file, const TiffLayout& layout)
    : file_(file), layout_(layout), is_tiled_(TIFFIsTiled(file) != 0) {
  std::uint16_t planar = 0;
  TIFFGetFieldDefaulted(file, TIFFTAG_PLANARCONFIG, &planar);
  planes_ = planar == PLANARCONFIG_SEPARATE ? static_cast<std::size_t>(layout.samples) : 1;
  TiffLayout plane = layout;
  plane.samples /= static_cast<int>(planes_);
  stride_ = plane.row_bytes();
  rows_ = field(file, is_tiled_ ? TIFFTAG_TILELENGTH : TIFFTAG_ROWSPERSTRIP);
  if (rows_ < 1) damaged_tiff();
  if (is_tiled_) {
    chunk_.resize(size_of(TIFFTileSize(file), 1));
  } else {
    rows_ = std::min(rows_, layout.height);
    chunk_.resize(size_of(TIFFVStripSize(file, static_cast<std::uint32_t>(rows_)),
                          stride_ * static_cast<std::size_t>(rows_)));
  }
  rows_ = std::min(rows_, layout.height);
  bytes_.resize(planes_ * static_cast<std::size_t>(rows_) * stride_);
  pixels_.resize(layout.row_bytes());
}

void Band::read_tiles(std::int64_t y, std::uint16_t plane) {
  const std::int64_t side = field(file_, TIFFTAG_TILEWIDTH);
  const std::size_t tile_stride = size_of(TIFFTileRowSize(file_), 1);
  const std::int64_t count = std::min(rows_, layout_.height - y);
  if (side < 1 || tile_stride * static_cast<std::size_t>(count) > chunk_.size()) damaged_tiff();
  std::size_t at = 0;
  for (std::int64_t x = 0; x < layout_.width; x += side) {
    const std::uint32_t tile = TIFFComputeTile(file_, static_cast<std::uint32_t>(x),
                                               static_cast<std::uint32_t>(y), 0, plane);
    const auto size = static_cast<tmsize_t>(chunk_.size());
    if (TIFFReadEncodedTile(file_, tile, chunk_.data(), size) != size) damaged_tiff();
    const std::size_t shown = std::min(tile_stride, stride_ - at);
    for (std::int64_t row = 0; row < count; ++row) {
      const std::byte* from = chunk_.data() + static_cast<std::size_t>(row) * tile_stride;
      std::memcpy(plane_row(plane, row) + at, from, shown);
    }
    at += shown;
  }
  if (at != stride_) damaged_tiff();
}

void Band::read_strip(std::int64_t y, std::uint16_t plane) {
  const std::uint32_t strip = TIFFComputeStrip(file_, static_cast<std::uint32_t>(y), plane);
  const std::size_t wanted =
      stride_ * static_cast<std::size_t>(std::min(rows_, layout_.height - y));
  const tmsize_t size =
      TIFFReadEncodedStrip(file_, strip, chunk_.data(), static_cast<tmsize_t>(chunk_.size()));
  if (size < 0 || static_cast<std::size_t>(size) < wanted) damaged_tiff();
  std::memcpy(plane_row(plane, 0), chunk_.data(), wanted);
}

void Band::read(std::int64_t y) {
  for (std::uint16_t plane = 0; plane < planes_; ++plane) {
    if (is_tiled_) {
      read_tiles(y, plane);
    } else {
      read_strip(y, plane);
    }
  }
}

const std::byte* Band::row(std::int64_t y) {
  if (planes_ == 1) return plane_row(0, y);
  const auto bytes = static_cast<std::size_t>(layout_.bits) / 8;
  for (std::size_t plane = 0; plane < planes_; ++plane) {
    const std::byte* from = plane_row(plane, y);
    for (std::size_t x = 0; x < static_cast<std::size_t>(layout_.width); ++x) {
      std::memcpy(&pixels_[(x * planes_ + plane) * bytes], from + x * bytes, bytes);
    }
  }
  return pixels_.data();
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

}  // namespace coldframe::frames
