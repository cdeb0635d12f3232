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

}  // namespace coldframe::frames
