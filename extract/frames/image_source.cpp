// JPEG, PNG and BMP through OpenCV's decoders, on bytes that were looked at first, since OpenCV
// hands what it does not recognise to GDAL and GDCM, which crash and hang on malformed files; WebP
// and JPEG of four colours through their own libraries.
#include <limits>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <type_traits>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "extract/frames/image_header.h"
#include "extract/frames/jpeg_cmyk.h"
#include "extract/frames/kinds.h"
#include "extract/frames/opencv_settings.h"
#include "extract/frames/value_scale.h"
#include "extract/frames/webp_image.h"

namespace coldframe::frames {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1ull << 30;

class ImageSource : public Source {
 public:
  ImageSource(std::filesystem::path path, const ValueScale& scale, bool is_grey)
      : path_(std::move(path)), scale_(scale), is_grey_(is_grey) {}

  std::int64_t frame_count() override { return 1; }
  double time_s(std::int64_t) const override { return 0.0; }

  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    if (indices.empty()) return;
    sink(Frame{0, 0.0, guarded([this] { return image(); })});
  }

  bool wants_range() const override { return scale_.wants_range(); }
  void set_range(const ValueRange& range) override { scale_.surveyed = range; }
  void survey(ValueSurvey& survey) override {
    const cv::Mat bgr = guarded([this] {
      const std::string bytes = file_bytes();
      return decode(bytes, check_image(bytes));
    });
    if (bgr.depth() != CV_16U) return;
    std::vector<std::uint64_t> counts(65536);
    for (int y = 0; y < bgr.rows; ++y) {
      const auto values = row(bgr, y);  // OpenCV triples grey ones
      for (std::size_t i = 0; i < values.size(); i += is_grey_ ? 3 : 1) ++counts[values[i]];
    }
    for (std::size_t value = 0; value < counts.size(); ++value) {
      survey.add(static_cast<double>(value), counts[value]);
    }
  }

 private:
  static std::span<const std::uint16_t> row(const cv::Mat& bgr, int y) {
    return {bgr.ptr<std::uint16_t>(y), 3 * static_cast<std::size_t>(bgr.cols)};
  }

  Image to_levels(const cv::Mat& bgr) const {
    const ValueRange range = scale_.range();
    cv::Mat narrow(bgr.rows, bgr.cols, CV_8UC3);
    for (int y = 0; y < bgr.rows; ++y) {
      std::uint8_t* to = narrow.ptr<std::uint8_t>(y);
      for (const std::uint16_t value : row(bgr, y)) *to++ = to_level(value, range);
    }
    return to_rgb_image(narrow);
  }

  template <typename Work>
  std::invoke_result_t<Work> guarded(const Work& work) const {
    try {
      return work();
    } catch (const DataError& error) {
      throw DataError(concat("image '", path_.string(), "': ", error.what()));
    } catch (const cv::Exception& error) {
      throw DataError(concat("image '", path_.string(), "': cannot be decoded: ", error.err));
    }
  }

  std::string file_bytes() const { return read_text_file(path_, kMaxFileBytes); }

  Image image() const {
    const std::string bytes = file_bytes();
    const ImageSize size = check_image(bytes);
    if (size.is_cmyk) return decode_cmyk_jpeg(bytes, size);
    if (image_format(bytes) == ImageFormat::kWebp) return decode_webp(bytes, size);
    const cv::Mat bgr = decode(bytes, size);
    return bgr.depth() == CV_16U ? to_levels(bgr) : to_rgb_image(bgr);
  }

  // As Pillow's convert("RGB"): the EXIF rotation is left alone, transparency is dropped.
  cv::Mat decode(const std::string& bytes, const ImageSize& size) const {
    const cv::Mat raw(1, static_cast<int>(bytes.size()), CV_8U, const_cast<char*>(bytes.data()));
    const int depth = scale_.depth == Depth::k16 ? cv::IMREAD_ANYDEPTH : 0;
    cv::Mat bgr = cv::imdecode(raw, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION | depth);
    if (bgr.empty() || bgr.cols != size.width || bgr.rows != size.height) {
      throw DataError(
          concat("its ", to_string(image_format(bytes)), " data is damaged and cannot be decoded"));
    }
    return bgr;
  }

  std::filesystem::path path_;
  ValueScale scale_;
  bool is_grey_;
};

}  // namespace

bool detect_image(std::string_view head, const std::filesystem::path&) {
  return image_format(head) != ImageFormat::kNone && !is_animated_png(head) &&
         !is_animated_webp(head);
}

std::unique_ptr<Source> open_image(const std::filesystem::path& path,
                                   const ReaderOptions& options) {
  std::string head(32, '\0');
  const InputFile file(path);
  head.resize(file.read_some(0, std::as_writable_bytes(std::span(head))));
  if (image_format(head) == ImageFormat::kTiff) return open_stack(path, options);
  configure_opencv();
  const Depth depth = is_deep_png(head) ? Depth::k16 : Depth::k8;
  return std::make_unique<ImageSource>(path, ValueScale{options.window, depth}, is_grey_png(head));
}

}  // namespace coldframe::frames
