// Windows bitmaps (BMP) without compression: 1, 4 and 8 bits with a palette, 24 and 32.
// Source: Microsoft "Bitmap Storage": BITMAPFILEHEADER, BITMAPCOREHEADER, BITMAPINFOHEADER.
#include "common/files/bytes/byte_cursor.h"
#include "extract/frames/image/header.h"
#include "extract/frames/image/still_source.h"

namespace coldframe::frames {
namespace {

constexpr std::uint64_t kFileHeader = 14, kCoreHeader = 12, kInfoHeader = 40, kLongestHeader = 124;

bool is_bmp(std::string_view head) {
  if (!head.starts_with("BM") || head.size() < kFileHeader + 4) return false;
  const std::uint64_t header = ByteCursor(head).u32(kFileHeader);
  return header == kCoreHeader || (header >= kInfoHeader && header <= kLongestHeader);
}

struct BmpLayout {
  FrameSize size;
  bool top_down = false;
  std::uint32_t bits = 0;  // of a pixel
  std::uint64_t pixels = 0, palette = 0;
  std::uint64_t colours = 0, colour_bytes = 4;  // of the palette

  std::uint64_t row_bytes() const {  // a multiple of four
    return (static_cast<std::uint64_t>(size.width) * bits + 31) / 32 * 4;
  }
};

// Four bytes that hold blue, green and red like those without masks.
bool has_usual_masks(const ByteCursor<>& in) {
  return in.u32(54) == 0xff0000 && in.u32(58) == 0xff00 && in.u32(62) == 0xff;
}

BmpLayout read_layout(const ByteCursor<>& in) {
  constexpr std::uint32_t kPlain = 0, kMasks = 3;
  const std::uint64_t header = in.u32(kFileHeader);
  BmpLayout layout;
  layout.pixels = in.u32(10);
  layout.palette = kFileHeader + header;
  std::uint32_t compression = kPlain;
  if (header == kCoreHeader) {
    layout.size = {in.u16(18), in.u16(20)};
    layout.bits = in.u16(24);
    layout.colour_bytes = 3;
  } else {
    const auto height = static_cast<std::int32_t>(in.u32(22));
    layout.size = {static_cast<std::int32_t>(in.u32(18)), std::abs(std::int64_t{height})};
    layout.top_down = height < 0;
    layout.bits = in.u16(28);
    compression = in.u32(30);
    layout.colours = in.u32(46);
  }
  if (layout.colours == 0 && layout.bits <= 8) layout.colours = std::uint64_t{1} << layout.bits;
  const bool is_read = layout.bits == 1 || layout.bits == 4 || layout.bits == 8 ||
                       layout.bits == 24 || layout.bits == 32;
  const bool is_plain =
      compression == kPlain || (compression == kMasks && layout.bits == 32 && has_usual_masks(in));
  if (!is_read || !is_plain)
    throw DataError(concat("it is a BMP image of ", layout.bits, " bits and compression ",
                           compression, ", which is not read; convert it to PNG"));
  return layout;
}

// The colour of a pixel: where its blue, green and red lie.
std::uint64_t colour_at(const ByteCursor<>& in, const BmpLayout& layout, std::uint64_t row,
                        std::uint64_t x) {
  if (layout.bits > 8) return row + x * (layout.bits / 8);
  const std::uint64_t bit = x * layout.bits;
  const std::uint32_t index =
      in.u8(row + bit / 8) >> (8 - layout.bits - bit % 8) & ((1u << layout.bits) - 1);
  if (index >= layout.colours)
    throw DataError(concat("it is damaged: a pixel has colour ", index, " of ", layout.colours));
  return layout.palette + index * layout.colour_bytes;
}

Image decode_bmp(std::string_view bytes) {
  const ByteCursor in(bytes);
  const BmpLayout layout = read_layout(in);
  check_size(layout.size);
  const auto width = static_cast<std::uint64_t>(layout.size.width);
  const auto height = static_cast<std::uint64_t>(layout.size.height);
  in.require(layout.pixels, height * layout.row_bytes());
  if (layout.bits <= 8) in.require(layout.palette, layout.colours * layout.colour_bytes);
  Image image{static_cast<int>(width), static_cast<int>(height), {}};
  image.rgb.reserve(3 * width * height);
  for (std::uint64_t y = 0; y < height; ++y) {
    const std::uint64_t row =
        layout.pixels + (layout.top_down ? y : height - 1 - y) * layout.row_bytes();
    for (std::uint64_t x = 0; x < width; ++x) {
      const std::uint64_t blue = colour_at(in, layout, row, x);
      for (const std::uint64_t channel : {2, 1, 0})
        image.rgb.push_back(static_cast<std::uint8_t>(bytes[blue + channel]));
    }
  }
  return image;
}

class BmpSource : public StillSource {
 public:
  BmpSource(const SourceFile& file, const ReaderOptions&) : StillSource(file) {}

 private:
  Image image() const override { return decode_bmp(file_.content(kMaxImageFileBytes)); }
};

}  // namespace

extern const SourceKind kBmpKind;
constinit const SourceKind kBmpKind{
    .name = "image",
    .contents = "BMP",
    .is_clip = false,
    .suffixes = ".bmp",
    .detect = [](const SourceFile& file) { return is_bmp(file.head()); },
    .open = open_as<BmpSource>};

}  // namespace coldframe::frames
