// Still images: JPEG, PNG, JPEG 2000, WebP, Netpbm and BMP, each through its own library on bytes
// that were looked at first. (Not through OpenCV's imdecode: Debian's build hands what it does not
// recognise to GDAL and GDCM, which crash and hang on malformed files, prints to stderr, and
// accepts JPEG with pixels made up.)
#include "extract/decode/image/still_formats.h"

#include <png.h>
#include <webp/decode.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <opencv2/core.hpp>
#include <span>
#include <vector>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/text/text.h"
#include "extract/decode/frame.h"
#include "extract/decode/image/jpeg2000.h"

// These headers stand in the order in which they need one another.
#include <jpeglib.h>

#include <jerror.h>

namespace coldframe::frames {

Image upright(Image image, int orientation) {
  if (orientation < 2 || orientation > 8) return image;
  cv::Mat turned(image.height, image.width, CV_8UC3, image.rgb.data());
  if (orientation >= 5) cv::transpose(turned.clone(), turned);
  const bool mirror_columns =
      orientation == 2 || orientation == 3 || orientation == 6 || orientation == 7;
  const bool mirror_rows =
      orientation == 3 || orientation == 4 || orientation == 7 || orientation == 8;
  if (mirror_columns) cv::flip(turned.clone(), turned, 1);
  if (mirror_rows) cv::flip(turned.clone(), turned, 0);
  const cv::Mat whole = turned.isContinuous() ? turned : turned.clone();
  return {whole.cols, whole.rows, {whole.data, whole.data + whole.total() * 3}};
}

void check_size(const FrameSize& size) {
  if (size.width >= 1 && size.height >= 1 && size.width <= kMaxSide && size.height <= kMaxSide &&
      size.width * size.height <= kMaxPixels)
    return;
  throw DataError(concat("its header gives a size of ", size.width, "×", size.height,
                         " pixels; at most ", kMaxSide, " a side and ", kMaxPixels,
                         " in all are read"));
}

namespace {

using std::string_view_literals::operator""sv;

[[noreturn]] void unsupported(const char* what) {
  throw DataError(concat("it is ", what, ", which is not read; convert it to 8-bit grey or RGB"));
}

[[noreturn]] void too_large(const FrameSize& size, std::uint64_t bytes) {
  throw DataError(concat("its header gives a size of ", size.width, "×", size.height,
                         " pixels, which ", bytes, " bytes cannot hold"));
}

// JPEG. Sources: Exif 2.3 (CIPA DC-008), section 4.5.4 and tag 274, Orientation; TIFF 6.0, section
// 2 (image file directories); libjpeg's libjpeg.txt, "Decompression details" and "Error handling";
// Adobe Technical Note 5116 (inverted CMYK).

constexpr auto kExif = "Exif\0\0"sv;

// The content of the EXIF segment, which is built like a TIFF file; "" where there is none.
std::string_view exif_of(std::string_view jpeg) {
  const ByteCursor in(jpeg, std::endian::big);
  for (std::uint64_t at = 2; in.u8(at) == 0xff;) {
    const unsigned marker = in.u8(at + 1);
    if (marker == 0xda || marker == 0xd9) break;
    if (marker == 0xff) {
      ++at;
      continue;
    }
    const std::uint64_t length = in.u16(at + 2);
    const std::uint64_t name = kExif.size() + 2;
    if (marker == 0xe1 && length > name && in.holds(at + 4, kExif))
      return in.text_at(at + 2 + name, length - name);
    at += 2 + length;
  }
  return {};
}

int orientation_of(std::string_view exif) {
  constexpr unsigned kOrientation = 274, kShort = 3;
  if (exif.empty()) return 1;
  const ByteCursor in(exif, exif.starts_with("MM") ? std::endian::big : std::endian::little);
  const std::uint64_t directory = in.u32(4);
  const unsigned entries = in.u16(directory);
  for (unsigned i = 0; i < entries; ++i) {
    const std::uint64_t entry = directory + 2 + std::uint64_t{12} * i;
    if (in.u16(entry) == kOrientation && in.u16(entry + 2) == kShort)
      return static_cast<int>(in.u16(entry + 8));
  }
  return 1;
}

// The orientation in the EXIF data; 1 if absent or unreadable.
int exif_orientation(std::string_view jpeg) {
  try {
    return orientation_of(exif_of(jpeg));
  } catch (const DataError&) {  // the picture may be whole all the same
    return 1;
  }
}

bool is_jpeg(std::string_view head) {
  return head.starts_with("\xff\xd8\xff");
}

// Skips entropy-coded data: the offset of the next marker that is neither a stuffed byte nor a
// restart.
std::uint64_t after_scan(std::string_view bytes, std::uint64_t at) {
  while (at < bytes.size()) {
    const void* found = std::memchr(bytes.data() + at, 0xff, bytes.size() - at);
    if (found == nullptr) break;
    at = static_cast<std::uint64_t>(static_cast<const char*>(found) - bytes.data());
    if (at + 1 >= bytes.size()) break;
    const auto marker = static_cast<unsigned char>(bytes[at + 1]);
    if (marker == 0xff) {
      ++at;
    } else if (marker == 0 || (marker >= 0xd0 && marker <= 0xd7)) {
      at += 2;
    } else {
      return at;
    }
  }
  throw DataError("it is truncated: its JPEG data has no end marker");
}

FrameSize jpeg_frame(const ByteCursor<>& in, std::uint64_t at, unsigned marker) {
  if (marker == 0xc3 || marker == 0xcb) unsupported("a lossless JPEG");
  if (in.u8(at + 4) != 8) unsupported("a JPEG of more than 8 bits");
  const std::uint32_t components = in.u8(at + 9);
  if (components != 1 && components != 3 && components != 4) {
    unsupported("a JPEG of other than 1, 3 or 4 colours");
  }
  return {in.u16(at + 7), in.u16(at + 5)};
}

// Bounds the work of decoding: in usual codings a block of 64 pixels takes a bit or more, and each
// scan may go over all of them.
void check_jpeg_work(const FrameSize& size, std::int64_t scans, std::uint64_t bytes) {
  constexpr std::int64_t kFreePixels = 1 << 16, kPixelsPerByte = 1024;
  constexpr std::int64_t kMaxScans = 256, kMaxVisits = std::int64_t{1} << 32;
  const std::int64_t pixels = size.width * size.height;
  if (pixels > kFreePixels + kPixelsPerByte * static_cast<std::int64_t>(bytes)) {
    too_large(size, bytes);
  }
  if (scans > kMaxScans || scans * pixels > kMaxVisits) {
    throw DataError(concat("its JPEG data goes over the picture ", plural(scans, "time"),
                           "; it is damaged, or made to keep its readers busy"));
  }
}

// Walks the segments to the end marker: libjpeg would silently paint what is missing grey.
FrameSize check_jpeg(std::string_view bytes) {
  const ByteCursor in(bytes, std::endian::big);
  FrameSize size;
  std::int64_t scans = 0;
  std::uint64_t at = 2;
  for (;;) {
    if (in.u8(at) != 0xff) throw DataError(concat("its JPEG data is damaged at byte ", at));
    const unsigned marker = in.u8(at + 1);
    if (marker == 0xff) {
      ++at;
      continue;
    }
    if (marker == 0xd9) break;
    const bool frame =
        marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
    if (frame && size.width != 0) throw DataError("its JPEG data is damaged: it has two headers");
    if (frame) size = jpeg_frame(in, at, marker);
    const std::uint64_t next = at + 2 + in.u16(at + 2);
    if (marker == 0xda) ++scans;
    at = marker == 0xda ? after_scan(bytes, next) : next;
  }
  check_jpeg_work(size, scans, bytes.size());
  return size;
}

// Receives libjpeg's errors and warnings.
struct Complaints {
  jpeg_error_mgr errors{};
  std::jmp_buf on_error{};
  bool is_damaged = false;
};

Complaints& complaints_of(j_common_ptr info) {
  return *static_cast<Complaints*>(info->client_data);
}

// libjpeg wants its handler of errors not to return.
[[noreturn]] void leave(j_common_ptr info) {
  std::longjmp(complaints_of(info).on_error, 1);
}

// Notes those of libjpeg's warnings that tell of pixels that it made up.
void note_warning(j_common_ptr info, int level) {
  const int code = info->err->msg_code;
  if (level < 0 && (code == JWRN_HIT_MARKER || code == JWRN_HUFF_BAD_CODE ||
                    code == JWRN_ARITH_BAD_CODE || code == JWRN_JPEG_EOF)) {
    complaints_of(info).is_damaged = true;
  }
}

template <typename Info>
void listen(Info& info, Complaints& complaints) {
  info.err = jpeg_std_error(&complaints.errors);
  info.client_data = &complaints;
  complaints.errors.error_exit = leave;
  complaints.errors.emit_message = note_warning;
  complaints.errors.output_message = [](j_common_ptr) {};
}

struct Decoder {
  jpeg_decompress_struct info{};
  Complaints complaints;

  Decoder() { listen(info, complaints); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&info); }
};

struct Encoder {
  jpeg_compress_struct info{};
  Complaints complaints;
  unsigned char* bytes = nullptr;  // libjpeg's own, from malloc
  unsigned long size = 0;

  Encoder() { listen(info, complaints); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() {
    jpeg_destroy_compress(&info);
    std::free(bytes);
  }
};

// a · b / 255 for levels, rounded as Pillow does.
int share(int a, int b) {
  const int product = a * b + 128;
  return (product + (product >> 8)) >> 8;
}

void inks_to_rgb(const std::uint8_t* inverted, std::size_t width, std::uint8_t* rgb) {
  for (std::size_t x = 0; x < width; ++x) {
    const int white = inverted[4 * x + 3];
    for (std::size_t channel = 0; channel < 3; ++channel) {
      const int ink = 255 - inverted[4 * x + channel];
      rgb[3 * x + channel] = static_cast<std::uint8_t>(white - share(ink, white));
    }
  }
}

void replicate(const std::uint8_t* grey, std::size_t width, std::uint8_t* rgb) {
  for (std::size_t x = 0; x < width; ++x, rgb += 3) rgb[0] = rgb[1] = rgb[2] = grey[x];
}

// False when libjpeg gives up. Nothing in here has a destructor, since longjmp would pass it by.
bool decode(Decoder& decoder, std::string_view bytes, Image& image, std::vector<JSAMPLE>& line) {
  jpeg_decompress_struct* const info = &decoder.info;
  if (setjmp(decoder.complaints.on_error) != 0) return false;
  jpeg_create_decompress(info);
  jpeg_mem_src(info, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size());
  jpeg_read_header(info, TRUE);
  const auto width = static_cast<std::size_t>(image.width);
  const int colours = info->num_components;
  if (info->image_width != width || info->image_height != static_cast<unsigned>(image.height)) {
    return false;
  }
  info->out_color_space = colours == 1 ? JCS_GRAYSCALE : colours == 3 ? JCS_RGB : JCS_CMYK;
  jpeg_start_decompress(info);
  while (info->output_scanline < info->output_height) {
    std::uint8_t* const rgb = image.rgb.data() + 3 * width * info->output_scanline;
    JSAMPROW row = colours == 3 ? rgb : line.data();
    if (jpeg_read_scanlines(info, &row, 1) != 1) return false;
    if (colours == 1) replicate(row, width, rgb);
    if (colours == 4) inks_to_rgb(row, width, rgb);
  }
  jpeg_finish_decompress(info);
  return !decoder.complaints.is_damaged;
}

bool is_grey(const Image& image) {
  for (std::size_t i = 0; i < image.rgb.size(); i += 3)
    if (image.rgb[i] != image.rgb[i + 1] || image.rgb[i] != image.rgb[i + 2]) return false;
  return true;
}

// False when libjpeg gives up; as in decode(), nothing in here has a destructor. `samples`:
// `components` a pixel.
bool encode(Encoder& encoder, const Image& image, int components, int quality,
            std::vector<JSAMPLE>& samples) {
  jpeg_compress_struct* const info = &encoder.info;
  if (setjmp(encoder.complaints.on_error) != 0) return false;
  jpeg_create_compress(info);
  jpeg_mem_dest(info, &encoder.bytes, &encoder.size);
  info->image_width = static_cast<JDIMENSION>(image.width);
  info->image_height = static_cast<JDIMENSION>(image.height);
  info->input_components = components;
  info->in_color_space = components == 1 ? JCS_GRAYSCALE : JCS_RGB;
  jpeg_set_defaults(info);
  jpeg_set_quality(info, quality, TRUE);
  info->optimize_coding = TRUE;
  jpeg_start_compress(info, TRUE);
  const std::size_t stride = static_cast<std::size_t>(components) * info->image_width;
  while (info->next_scanline < info->image_height) {
    JSAMPROW row = samples.data() + stride * info->next_scanline;
    jpeg_write_scanlines(info, &row, 1);
  }
  jpeg_finish_compress(info);
  return true;
}

// RGB as Pillow's convert("RGB") gives it: CMYK and YCCK are assumed to be inverted, as Adobe
// stores them, and no colour profile is applied. DataError even if libjpeg would conceal the
// damage.
Image decode_jpeg(std::string_view bytes, const FrameSize& size) {
  const auto pixels = static_cast<std::size_t>(size.width * size.height);
  Image image{static_cast<int>(size.width), static_cast<int>(size.height),
              std::vector<std::uint8_t>(3 * pixels)};
  std::vector<JSAMPLE> line(4 * static_cast<std::size_t>(size.width));
  Decoder decoder;
  if (!decode(decoder, bytes, image, line)) {
    throw DataError("its JPEG data is damaged and cannot be decoded");
  }
  return image;
}

}  // namespace

std::string encode_jpeg(const Image& image, int quality) {
  std::vector<JSAMPLE> samples = image.rgb;
  const bool grey = is_grey(image);
  if (grey) {
    samples.resize(image.rgb.size() / 3);
    for (std::size_t i = 0; i < samples.size(); ++i) samples[i] = image.rgb[3 * i];
  }
  Encoder encoder;
  if (!encode(encoder, image, grey ? 1 : 3, quality, samples))
    throw DataError("its pixels cannot be stored as a JPEG image");
  return {reinterpret_cast<const char*>(encoder.bytes), encoder.size};
}

// PNG. Sources: PNG specification (third edition); libpng's libpng-manual.txt, "Reading PNG files".

namespace {

constexpr auto kPngSignature = "\x89PNG\r\n\x1a\n"sv;

bool is_png(std::string_view head) {
  return head.starts_with(kPngSignature);
}

bool is_deep_png(std::string_view head) {  // of 16 bits per channel
  return head.size() > 24 && head[24] == 16;
}

bool is_grey_png(std::string_view head) {  // with or without alpha
  return head.size() > 25 && (head[25] == 0 || head[25] == 4);
}

// Deflate makes at most 258 bytes of 2 bits.
void check_png_size(const ByteCursor<>& in, const FrameSize& size) {
  constexpr std::uint64_t kMaxInflation = 1032;
  constexpr std::uint64_t kSamples[] = {1, 0, 3, 1, 2, 0, 4};  // by colour type
  const std::uint32_t colour_type = in.u8(25), depth = in.u8(24);
  const std::uint64_t bits = colour_type > 6 ? 0 : kSamples[colour_type] * depth;
  if (bits == 0 || depth > 16) throw DataError("its PNG header is damaged");
  if (size.width > kMaxSide || size.height > kMaxSide) return;
  const auto width = static_cast<std::uint64_t>(size.width);
  const auto height = static_cast<std::uint64_t>(size.height);
  if ((width * bits / 8 + 1) * height / kMaxInflation > in.size()) too_large(size, in.size());
}

FrameSize check_png(std::string_view bytes) {
  const ByteCursor in(bytes, std::endian::big);
  if (!in.holds(12, "IHDR")) throw DataError("its PNG header is damaged");
  const FrameSize size{in.u32(16), in.u32(20)};
  check_png_size(in, size);
  std::uint64_t at = 8;
  while (!in.holds(at + 4, "IEND")) {
    if (in.holds(at + 4, "acTL")) unsupported("an animated PNG");
    at += 12 + std::uint64_t{in.u32(at)};
  }
  return size;
}

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

// As Pillow reads it: palettes are looked up, transparency is dropped, no gamma is applied.
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

}  // namespace

bool is_animated_png(std::string_view head) {
  if (!is_png(head)) return false;
  const ByteCursor in(head, std::endian::big);
  for (std::uint64_t at = 8; at + 8 <= head.size() && !in.holds(at + 4, "IDAT");) {
    if (in.holds(at + 4, "acTL")) return true;
    at += 12 + std::uint64_t{in.u32(at)};
  }
  return false;
}

namespace {

// WebP.

bool is_webp(std::string_view head) {
  return head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "WEBP";
}

FrameSize webp_size(const ByteCursor<>& in) {
  if (in.holds(12, "VP8X")) {
    return {1 + std::int64_t{in.u24(24)}, 1 + std::int64_t{in.u24(27)}};
  }
  if (in.holds(12, "VP8L")) {
    const std::uint32_t packed = in.u32(21);
    return {1 + (packed & 0x3fff), 1 + (packed >> 14 & 0x3fff)};
  }
  if (!in.holds(12, "VP8 ")) throw DataError("its WebP header is damaged");
  return {in.u16(26) & 0x3fff, in.u16(28) & 0x3fff};
}

FrameSize check_webp(std::string_view bytes) {
  const ByteCursor in(bytes, std::endian::little);
  const std::uint64_t end = 8 + std::uint64_t{in.u32(4)};
  in.require(0, end);
  const FrameSize size = webp_size(in);
  // A blank picture may take a few bytes, whatever its size.
  constexpr std::uint64_t kFreePixels = 1 << 24, kPixelsPerByte = 1024;
  if (static_cast<std::uint64_t>(size.width * size.height) >
      kFreePixels + kPixelsPerByte * in.size()) {
    too_large(size, in.size());
  }
  return size;
}

// Drops the transparency, as Pillow's convert("RGB") does.
Image decode_webp(std::string_view bytes, const FrameSize& size) {
  const auto* data = reinterpret_cast<const std::uint8_t*>(bytes.data());
  const auto count = static_cast<std::size_t>(size.width * size.height);
  Image image{static_cast<int>(size.width), static_cast<int>(size.height), {}};
  WebPBitstreamFeatures features{};
  const bool is_sound = WebPGetFeatures(data, bytes.size(), &features) == VP8_STATUS_OK &&
                        features.width == image.width && features.height == image.height;
  if (is_sound && features.has_animation != 0)
    throw DataError("it is an animated WebP, of which no frame is read; make a GIF or PNG of it");
  if (is_sound) image.rgb.resize(3 * count);
  if (!is_sound || WebPDecodeRGBInto(data, bytes.size(), image.rgb.data(), image.rgb.size(),
                                     3 * image.width) == nullptr) {
    throw DataError("its WebP data is damaged and cannot be decoded");
  }
  return image;
}

// Windows bitmaps (BMP) without compression: 1, 4 and 8 bits with a palette, 24 and 32.
// Source: Microsoft "Bitmap Storage": BITMAPFILEHEADER, BITMAPCOREHEADER, BITMAPINFOHEADER.

constexpr std::uint64_t kFileHeader = 14, kCoreHeader = 12, kInfoHeader = 40, kMaxHeader = 124;

bool is_bmp(std::string_view head) {
  if (!head.starts_with("BM") || head.size() < kFileHeader + 4) return false;
  const std::uint64_t header = ByteCursor(head).u32(kFileHeader);
  return header == kCoreHeader || (header >= kInfoHeader && header <= kMaxHeader);
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

FrameSize bmp_size(std::string_view bytes) {
  return read_layout(ByteCursor(bytes)).size;
}

Image decode_bmp(std::string_view bytes, const FrameSize&) {
  const ByteCursor in(bytes);
  const BmpLayout layout = read_layout(in);
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

// Netpbm: PGM and PPM, as text (P2, P3) or bytes (P5, P6). Sources: pgm(5) and ppm(5) of Netpbm.

constexpr std::uint64_t kLargestValue = 65535, kShallow = 255;

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// Reads numbers between white space and comments, which reach from # to the end of the line.
class Numbers {
 public:
  Numbers(std::string_view bytes, std::size_t at) : bytes_(bytes), at_(at) {}

  std::size_t position() const { return at_; }

  std::uint64_t next(const char* what, std::uint64_t greatest) {
    skip();
    if (at_ >= bytes_.size()) throw DataError(concat("it is truncated before its ", what));
    std::uint64_t value = 0;
    for (; at_ < bytes_.size() && is_digit(bytes_[at_]); ++at_) {
      value = 10 * value + static_cast<std::uint64_t>(bytes_[at_] - '0');
      if (value > greatest)
        throw DataError(
            concat("its ", what, " is more than ", greatest, ", the most there may be"));
    }
    if (!is_digit(bytes_[at_ - 1]) || (at_ < bytes_.size() && !is_space(bytes_[at_])))
      throw DataError(concat("its ", what, " at byte ", at_, " is no whole number"));
    return value;
  }

 private:
  void skip() {
    while (at_ < bytes_.size() && (is_space(bytes_[at_]) || bytes_[at_] == '#')) {
      if (bytes_[at_] == '#') at_ = std::min(bytes_.find('\n', at_), bytes_.size() - 1);
      ++at_;
    }
  }

  std::string_view bytes_;
  std::size_t at_;
};

struct Header {
  bool is_text = false;
  int channels = 1;
  FrameSize size;
  std::uint64_t greatest = 0;  // that a value may have
  std::size_t pixels = 0;      // the byte at which they begin

  std::uint64_t values() const {
    return static_cast<std::uint64_t>(size.width * size.height) *
           static_cast<std::uint64_t>(channels);
  }
};

Header read_header(std::string_view bytes) {
  Header header;
  header.is_text = bytes[1] == '2' || bytes[1] == '3';
  header.channels = bytes[1] == '3' || bytes[1] == '6' ? 3 : 1;
  Numbers numbers(bytes, 2);
  header.size.width = static_cast<std::int64_t>(numbers.next("width", INT32_MAX));
  header.size.height = static_cast<std::int64_t>(numbers.next("height", INT32_MAX));
  header.greatest = numbers.next("greatest value", kLargestValue);
  if (header.greatest == 0) throw DataError("its greatest value is 0, expected 1 to 65535");
  header.pixels = numbers.position() + 1;  // one white space stands between them
  return header;
}

// A number of a text takes two bytes, but for the last one.
void check_length(const Header& header, std::string_view bytes) {
  const std::uint64_t width = header.is_text || header.greatest > kShallow ? 2 : 1;
  const std::uint64_t there =
      bytes.size() + (header.is_text ? 1 : 0) - std::min(bytes.size(), header.pixels);
  if (there / width < header.values())
    throw DataError(concat("it is truncated: its header gives a size of ", header.size.width, "×",
                           header.size.height, " pixels, which ", bytes.size(),
                           " bytes cannot hold"));
}

// Pillow's rule: the nearest level, halves to even.
std::uint64_t scaled(std::uint64_t value, std::uint64_t greatest, std::uint64_t white) {
  const double share = static_cast<double>(value) / static_cast<double>(greatest);
  return std::min(white,
                  static_cast<std::uint64_t>(std::nearbyint(share * static_cast<double>(white))));
}

template <typename Level>
std::vector<Level> read_values(const Header& header, std::string_view bytes, std::uint64_t white) {
  std::vector<Level> levels(header.values());
  Numbers numbers(bytes, header.pixels);
  const bool wide = header.greatest > kShallow;
  const auto byte = [&](std::size_t at) {
    return std::uint64_t{static_cast<unsigned char>(bytes[header.pixels + at])};
  };
  for (std::size_t i = 0; i < levels.size(); ++i) {
    std::uint64_t value = 0;
    if (header.is_text) {
      value = numbers.next("pixels", header.greatest);
    } else {
      value = wide ? byte(2 * i) << 8 | byte(2 * i + 1) : byte(i);
    }
    levels[i] = static_cast<Level>(
        header.greatest == white ? value : scaled(value, header.greatest, white));
  }
  return levels;
}

bool is_netpbm(std::string_view head) {
  constexpr std::string_view kKinds = "2356";
  if (head.size() < 4 || head[0] != 'P' || kKinds.find(head[1]) == std::string_view::npos)
    return false;
  std::size_t at = 2;
  while (at < head.size() && is_space(head[at])) ++at;
  return at > 2 && at < head.size() && (is_digit(head[at]) || head[at] == '#');
}

bool is_deep_netpbm(std::string_view head) {
  try {
    return read_header(head).greatest > kShallow;
  } catch (const DataError&) {
    return false;
  }
}

FrameSize netpbm_size(std::string_view bytes) {
  const Header header = read_header(bytes);
  check_length(header, bytes);
  return header.size;
}

// Scales values from 0 … the header's max to 0 … 255 or, in deep images, 0 … 65535, rounded as in
// Pillow.
Image decode_netpbm(std::string_view bytes, const FrameSize&) {
  const Header header = read_header(bytes);
  std::vector<std::uint8_t> levels = read_values<std::uint8_t>(header, bytes, kShallow);
  Image image{static_cast<int>(header.size.width), static_cast<int>(header.size.height), {}};
  if (header.channels == 3) {
    image.rgb = std::move(levels);
  } else {
    for (const std::uint8_t level : levels) image.rgb.insert(image.rgb.end(), 3, level);
  }
  return image;
}

Image16 decode_deep_netpbm(std::string_view bytes, const FrameSize&) {
  const Header header = read_header(bytes);
  return {static_cast<int>(header.size.width), static_cast<int>(header.size.height),
          header.channels, read_values<std::uint16_t>(header, bytes, kLargestValue)};
}

// All that the program knows of a still format: a row of kStillFormats. Functions throw DataError
// without the file's name.
struct StillFormat {
  const char *contents, *suffixes;  // as in SourceKind
  bool (*detect)(std::string_view head);
  // Checks the whole file's structure as far as it shows truncation, and that its bytes can hold
  // what the header states, to bound the memory of decoding. Refuses varieties whose pixels would
  // differ from Pillow's.
  FrameSize (*check)(std::string_view bytes);
  Image (*decode)(std::string_view bytes, const FrameSize& size);
  int (*orientation)(std::string_view bytes) = nullptr;  // as upright() takes it

  // Images of more than 8 bits. `long_header`: is_deep needs more than the file's head.
  bool (*is_deep)(std::string_view head) = nullptr;
  Image16 (*decode_deep)(std::string_view bytes, const FrameSize& size) = nullptr;
  bool long_header = false;
};

constexpr StillFormat kStillFormats[] = {
    {.contents = "JPEG",
     .suffixes = ".jpg .jpeg",
     .detect = is_jpeg,
     .check = check_jpeg,
     .decode = decode_jpeg,
     .orientation = exif_orientation},
    {.contents = "PNG",
     .suffixes = ".png",
     .detect = is_png,
     .check = check_png,
     .decode = decode_png,
     .is_deep = is_deep_png,
     .decode_deep = decode_deep_png},
    {.contents = "JPEG 2000",
     .suffixes = ".jp2 .j2k .j2c",
     .detect = is_jpeg2000,
     .check = jpeg2000_size,
     .decode = decode_jpeg2000_image,
     .is_deep = is_deep_jpeg2000,
     .decode_deep = decode_deep_jpeg2000,
     .long_header = true},
    {.contents = "WebP",
     .suffixes = ".webp",
     .detect = is_webp,
     .check = check_webp,
     .decode = decode_webp},
    {.contents = "PGM, PPM",
     .suffixes = ".pgm .ppm .pnm",
     .detect = is_netpbm,
     .check = netpbm_size,
     .decode = decode_netpbm,
     .is_deep = is_deep_netpbm,
     .decode_deep = decode_deep_netpbm},
    {.contents = "BMP",
     .suffixes = ".bmp",
     .detect = is_bmp,
     .check = bmp_size,
     .decode = decode_bmp},
};

const StillFormat* format_of(std::string_view head) {
  const auto* found = std::ranges::find_if(
      kStillFormats, [&](const StillFormat& format) { return format.detect(head); });
  return found == std::end(kStillFormats) ? nullptr : found;
}

class ImageSource final : public FileSource {
 public:
  ImageSource(const SourceFile& file, const ReaderOptions& options)
      : FileSource("image", file), scale_{options.window}, ignore_exif_(options.ignore_exif) {
    guarded([this] {
      format_ = format_of(file_.head());
      if (format_ == nullptr) throw DataError("its content is that of no known image format");
      if (format_->is_deep == nullptr) return;
      const bool deep =
          format_->long_header ? format_->is_deep(content()) : format_->is_deep(file_.head());
      if (deep) scale_.depth = Depth::k16;
    });
  }

  std::int64_t frame_count() override { return 1; }
  double time_s(std::int64_t) const override { return 0.0; }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    if (!indices.empty()) sink(Frame{0, 0.0, guarded([this] { return image(); })});
  }

  bool wants_range() const override { return scale_.wants_range(); }
  void set_range(const ValueRange& range) override { scale_.surveyed = range; }
  void survey(ValueSurvey& survey) override {
    if (scale_.depth != Depth::k16) return;
    std::vector<std::uint64_t> counts(65536);
    const Image16 deep = guarded([this] { return deep_image(content()); });
    for (const std::uint16_t value : deep.values) ++counts[value];
    for (std::size_t value = 0; value < counts.size(); ++value) {
      survey.add(static_cast<double>(value), counts[value]);
    }
  }

 private:
  std::string content() const {
    constexpr std::uint64_t kMaxImageFileBytes = 1ull << 30;
    return file_.content(kMaxImageFileBytes);
  }

  FrameSize checked_size(std::string_view bytes) const {
    if (!format_->detect(bytes)) throw DataError("it has changed while it was read");
    const FrameSize size = format_->check(bytes);
    check_size(size);
    return size;
  }

  Image16 deep_image(std::string_view bytes) const {
    const FrameSize size = checked_size(bytes);
    if (!format_->is_deep(bytes)) throw DataError("it has changed while it was read");
    return format_->decode_deep(bytes, size);
  }

  Image image() const {
    const std::string bytes = content();
    if (scale_.depth == Depth::k16) return to_levels(deep_image(bytes));
    Image image = format_->decode(bytes, checked_size(bytes));
    const bool turns = format_->orientation != nullptr && !ignore_exif_;
    return turns ? upright(std::move(image), format_->orientation(bytes)) : image;
  }

  Image to_levels(const Image16& deep) const {
    const ValueRange range = scale_.range();
    const std::size_t copies = deep.channels == 1 ? 3 : 1;
    Image image{deep.width, deep.height, std::vector<std::uint8_t>(deep.values.size() * copies)};
    std::uint8_t* to = image.rgb.data();
    for (const std::uint16_t value : deep.values)
      to = std::fill_n(to, copies, to_level(value, range));
    return image;
  }

  const StillFormat* format_ = nullptr;
  ValueScale scale_;
  bool ignore_exif_;
};

bool detect_image(const SourceFile& file) {
  const std::string_view head = file.head();
  return format_of(head) != nullptr && !is_animated_png(head);
}

// One text of all rows, for kImageKind.
consteval auto all_formats(const char* StillFormat::*words, std::string_view between) {
  std::array<char, 128> text{};
  char* end = text.data();
  for (const StillFormat& format : kStillFormats) {
    if (end != text.data()) end = std::ranges::copy(between, end).out;
    end = std::ranges::copy(std::string_view(format.*words), end).out;
  }
  *end = '\0';
  return text;
}
constexpr auto kContents = all_formats(&StillFormat::contents, ", ");
constexpr auto kSuffixes = all_formats(&StillFormat::suffixes, " ");

}  // namespace

extern const SourceKind kImageKind;
constinit const SourceKind kImageKind{.name = "image",
                                      .contents = kContents.data(),
                                      .is_clip = false,
                                      .suffixes = kSuffixes.data(),
                                      .detect = detect_image,
                                      .open = open_as<ImageSource>};

}  // namespace coldframe::frames
