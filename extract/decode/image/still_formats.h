// Still image formats: signatures, limits and decoders of JPEG, PNG, WebP, BMP and Netpbm.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "extract/decode/frame.h"
#include "extract/decode/source.h"
#include "extract/decode/window.h"

namespace coldframe::frames {

// Rotates images upright.

// 1 … 8 as EXIF and TIFF count orientations (tag 274); 1, and everything else, is upright. Same
// result as Pillow's exif_transpose.
Image upright(Image image, int orientation);

// The orientation in a JPEG file's EXIF data; 1 if absent or unreadable.
int exif_orientation(std::string_view jpeg);

// A file that holds one image.

class StillSource : public FileSource {
 public:
  explicit StillSource(const SourceFile& file) : FileSource("image", file) {}

  std::int64_t frame_count() override { return 1; }
  double time_s(std::int64_t) const override { return 0.0; }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    if (!indices.empty()) sink(Frame{0, 0.0, guarded([this] { return image(); })});
  }

 protected:
  virtual Image image() const = 0;  // DataError without the file's name
};

// Chooses which values of an image map to black and white.

enum class Depth { k8, k16, kWide };  // kWide: signed, of 32 bits, or floats

// 8 bits are levels already, whatever the window. 16 bits: 0 to 65535 unless a window is asked for.
// Wider ones: from the min to the max of the exam.
struct ValueScale {
  Window window;
  Depth depth = Depth::k8;
  std::optional<ValueRange> surveyed = std::nullopt;  // over the exam's files, once it is known

  // The range must be computed from the values.
  bool wants_range() const {
    const bool from_values = window.kind == Window::Kind::kPercentiles ||
                             (window.kind == Window::Kind::kFile && depth == Depth::kWide);
    return depth != Depth::k8 && from_values && !surveyed;
  }

  ValueRange range() const {
    if (depth == Depth::k8) return {0, 255};
    if (surveyed) return *surveyed;
    if (window.kind == Window::Kind::kFixed) {
      return {window.center - window.width / 2, window.center + window.width / 2};
    }
    return {0, 65535};
  }
};

// Reads an image file's header before decoding, to decide whether to decode it and to bound the
// memory of decoding.

inline constexpr std::uint64_t kMaxImageFileBytes = 1ull << 30;

enum class ImageFormat { kNone, kJpeg, kPng, kTiff, kWebp, kNetpbm, kJpeg2000 };

ImageFormat image_format(std::string_view head);  // by signature
bool is_deep_png(std::string_view head);          // of 16 bits per channel
bool is_grey_png(std::string_view head);          // with or without alpha

bool is_animated_png(std::string_view head);  // `head` reaches to the pixels

struct FrameSize {
  std::int64_t width = 0, height = 0;
};
void check_size(const FrameSize& size);  // DataError: empty, or larger than what is read

// Checks the whole file's structure as far as it shows truncation. DataError, without the file's
// name, for content that is truncated, larger than 2^28 pixels or than its bytes can hold, or of a
// variety (animated, …) whose pixels would differ from Pillow's.
FrameSize check_image(std::string_view bytes);

// PNG images through libpng, as Pillow reads them; those of 16 bits as numbers.

// Palettes are looked up, transparency is dropped, no gamma is applied. `size` is what
// check_image() found. DataError, without the file's name, for data that is damaged.
Image decode_png(std::string_view bytes, const FrameSize& size);

struct Image16 {
  int width = 0, height = 0, channels = 1;  // 1: grey; 3: RGB
  std::vector<std::uint16_t> values;        // [height, width, channels]
};
Image16 decode_deep_png(std::string_view bytes, const FrameSize& size);  // where is_deep_png()

// JPEG images through libjpeg: read as Pillow reads them, and written.

// RGB as Pillow's convert("RGB") gives it: EXIF rotation is left to the caller; CMYK and YCCK are
// assumed to be inverted, as Adobe stores them, and no colour profile is applied. `size` is what
// check_image() found. DataError, without the file's name, for damaged data, even if libjpeg would
// conceal the errors.
Image decode_jpeg(std::string_view bytes, const FrameSize& size);

// A JPEG file (JFIF, baseline, without any metadata) of `quality` 1 … 100, as libjpeg counts it; of
// one component where red, green and blue are equal everywhere. DataError for an image that is
// empty or has an edge of more than 65500 pixels.
std::string encode_jpeg(const Image& image, int quality);

// Images of the Netpbm formats PGM and PPM, as text (P2, P3) or bytes (P5, P6).

bool is_netpbm(std::string_view head);       // by its signature and first number
bool is_deep_netpbm(std::string_view head);  // its max value is above 255

// What the header says. DataError, without the file's name, here and below: a header that is
// damaged, or pixels that are truncated.
FrameSize netpbm_size(std::string_view bytes);

// Scales values from 0 … the header's max to 0 … 255 or, in deep images, 0 … 65535, rounded as in
// Pillow.
Image decode_netpbm(std::string_view bytes);
Image16 decode_deep_netpbm(std::string_view bytes);

// Still WebP images through libwebp.

// Drops the transparency, as Pillow's convert("RGB") does. `size` is what check_image() found.
// DataError, without the file's name, for data that is damaged.
Image decode_webp(std::string_view bytes, const FrameSize& size);

}  // namespace coldframe::frames
