// JPEG, PNG, WebP, Netpbm and JPEG 2000, each through its own library on bytes that were looked at
// first. (Not through OpenCV's imdecode: Debian's build hands what it does not recognise to GDAL
// and GDCM, which crash and hang on malformed files, prints to stderr, and accepts JPEG with pixels
// made up.)
#include <algorithm>
#include <limits>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/decode/image/jpeg2000.h"
#include "extract/decode/image/still_formats.h"

namespace coldframe::frames {

extern const SourceKind kStackKind;  // reads TIFF, also of one page

namespace {

class ImageSource : public StillSource {
 public:
  ImageSource(const SourceFile& file, const ReaderOptions& options)
      : StillSource(file), scale_{options.window}, ignore_exif_(options.ignore_exif) {
    const std::string_view head = file_.head();
    const bool is_deep = is_jpeg2000(head)  // whose header may be of any length
                             ? guarded([this] { return is_deep_jpeg2000(content()); })
                             : is_deep_png(head) || is_deep_netpbm(head);
    if (is_deep) scale_.depth = Depth::k16;
  }

  bool wants_range() const override { return scale_.wants_range(); }
  void set_range(const ValueRange& range) override { scale_.surveyed = range; }
  void survey(ValueSurvey& survey) override {
    if (scale_.depth != Depth::k16) return;
    std::vector<std::uint64_t> counts(65536);
    const Image16 deep = guarded([this] { return deep_image(); });
    for (const std::uint16_t value : deep.values) ++counts[value];
    for (std::size_t value = 0; value < counts.size(); ++value) {
      survey.add(static_cast<double>(value), counts[value]);
    }
  }

 private:
  std::string content() const { return file_.content(kMaxImageFileBytes); }

  Image16 deep_image() const {
    const std::string bytes = content();
    const FrameSize size = check_image(bytes);
    if (is_deep_jpeg2000(bytes)) return decode_deep_jpeg2000(bytes);
    if (is_deep_netpbm(bytes)) return decode_deep_netpbm(bytes);
    if (!is_deep_png(bytes)) throw DataError("it has changed while it was read");
    return decode_deep_png(bytes, size);
  }

  Image image() const override {
    if (scale_.depth == Depth::k16) return to_levels(deep_image());
    const std::string bytes = content();
    const FrameSize size = check_image(bytes);
    switch (image_format(bytes)) {
      case ImageFormat::kJpeg:
        return upright(decode_jpeg(bytes, size), ignore_exif_ ? 1 : exif_orientation(bytes));
      case ImageFormat::kPng:
        return decode_png(bytes, size);
      case ImageFormat::kNetpbm:
        return decode_netpbm(bytes);
      case ImageFormat::kJpeg2000:
        return decode_jpeg2000_image(bytes);
      default:
        return decode_webp(bytes, size);
    }
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

  ValueScale scale_;
  bool ignore_exif_;
};

bool detect_image(const SourceFile& file) {
  const std::string_view head = file.head();
  return image_format(head) != ImageFormat::kNone && !is_animated_png(head);
}

std::unique_ptr<Source> open_image(const SourceFile& file, const ReaderOptions& options) {
  const bool is_tiff = image_format(file.head()) == ImageFormat::kTiff;
  return (is_tiff ? kStackKind.open : open_as<ImageSource>)(file, options);
}

}  // namespace

extern const SourceKind kImageKind;
constinit const SourceKind kImageKind{
    .name = "image",
    .contents = "JPEG, PNG, JPEG 2000, TIFF, WebP, PGM, PPM",
    .is_clip = false,
    .suffixes = ".jpg .jpeg .png .tif .tiff .webp .pgm .ppm .pnm .jp2 .j2k .j2c",
    .detect = detect_image,
    .open = open_image};

}  // namespace coldframe::frames
