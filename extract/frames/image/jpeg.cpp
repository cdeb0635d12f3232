// Sources: libjpeg's libjpeg.txt, "Decompression details" and "Error handling"; Adobe Technical
// Note 5116 (inverted CMYK).
#include "extract/frames/image/jpeg.h"

#include <csetjmp>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <vector>

// These headers stand in the order in which they need one another.
#include <jpeglib.h>

#include <jerror.h>

#include "common/cli/error.h"

namespace coldframe::frames {
namespace {

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

}  // namespace coldframe::frames
