// Sources: PNG specification (third edition); libpng's libpng-manual.txt, "Reading PNG files".
#include "extract/frames/image/png.h"

#include <png.h>

#include <bit>
#include <csetjmp>
#include <cstddef>
#include <cstring>

#include "common/cli/error.h"

namespace coldframe::frames {
namespace {

struct Reader {
  std::string_view bytes;
  std::size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;

  explicit Reader(std::string_view content) : bytes(content) {}
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
};

// libpng wants its handler of errors not to return.
[[noreturn]] void leave(png_structp png, png_const_charp) {
  png_longjmp(png, 1);
}

void ignore(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, std::size_t count) {
  Reader& reader = *static_cast<Reader*>(png_get_io_ptr(png));
  if (count > reader.bytes.size() - reader.at) png_error(png, "truncated");
  std::memcpy(to, reader.bytes.data() + reader.at, count);
  reader.at += count;
}

// Samples of 8 bits become RGB, those of 16 numbers of this machine.
void choose_conversions(png_structp png, bool is_deep) {
  png_set_palette_to_rgb(png);
  png_set_expand_gray_1_2_4_to_8(png);
  png_set_strip_alpha(png);
  if (!is_deep) png_set_gray_to_rgb(png);
  if (is_deep && std::endian::native == std::endian::little) png_set_swap(png);
}

// Fills `pixels`, rows of `row_bytes`. False when libpng gives up, or when the rows would be of
// another size. Nothing in here has a destructor, since longjmp would pass it by.
bool decode(Reader& reader, const FrameSize& size, std::size_t row_bytes, png_bytep pixels,
            png_bytep* rows) {
  reader.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, nullptr, leave, ignore);
  if (reader.png == nullptr) return false;
  if (setjmp(png_jmpbuf(reader.png)) != 0) return false;
  reader.info = png_create_info_struct(reader.png);
  if (reader.info == nullptr) return false;
  png_set_read_fn(reader.png, &reader, read_bytes);
  png_read_info(reader.png, reader.info);
  if (png_get_image_width(reader.png, reader.info) != static_cast<png_uint_32>(size.width) ||
      png_get_image_height(reader.png, reader.info) != static_cast<png_uint_32>(size.height)) {
    return false;
  }
  choose_conversions(reader.png, png_get_bit_depth(reader.png, reader.info) == 16);
  png_set_interlace_handling(reader.png);
  png_read_update_info(reader.png, reader.info);
  if (png_get_rowbytes(reader.png, reader.info) != row_bytes) return false;
  for (std::int64_t y = 0; y < size.height; ++y) {
    rows[y] = pixels + static_cast<std::size_t>(y) * row_bytes;
  }
  png_read_image(reader.png, rows);
  png_read_end(reader.png, nullptr);
  return true;
}

void decode_into(std::string_view bytes, const FrameSize& size, std::size_t row_bytes,
                 png_bytep pixels) {
  std::vector<png_bytep> rows(static_cast<std::size_t>(size.height));
  Reader reader(bytes);
  if (!decode(reader, size, row_bytes, pixels, rows.data())) {
    throw DataError("its PNG data is damaged and cannot be decoded");
  }
}

}  // namespace

Image decode_png(std::string_view bytes, const FrameSize& size) {
  const std::size_t row_bytes = 3 * static_cast<std::size_t>(size.width);
  Image image{static_cast<int>(size.width), static_cast<int>(size.height),
              std::vector<std::uint8_t>(row_bytes * static_cast<std::size_t>(size.height))};
  decode_into(bytes, size, row_bytes, image.rgb.data());
  return image;
}

Image16 decode_deep_png(std::string_view bytes, const FrameSize& size) {
  const int channels = is_grey_png(bytes) ? 1 : 3;
  const std::size_t row = static_cast<std::size_t>(size.width * channels);
  Image16 image{static_cast<int>(size.width), static_cast<int>(size.height), channels,
                std::vector<std::uint16_t>(row * static_cast<std::size_t>(size.height))};
  decode_into(bytes, size, 2 * row, reinterpret_cast<png_bytep>(image.values.data()));
  return image;
}

}  // namespace coldframe::frames
