// JPEG, PNG, BMP, TIFF and WebP through OpenCV's decoders, on bytes that were looked at first. (Not
// cv::imread: Debian's build hands files to GDCM, which crashes and hangs on malformed ones.)
#include <limits>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>

#include "common/error.h"
#include "common/file.h"
#include "common/text.h"
#include "extract/frames/image_header.h"
#include "extract/frames/kinds.h"
#include "extract/frames/opencv_settings.h"

namespace coldframe::frames {
namespace {

constexpr std::uint64_t kMaxFileBytes = 1ull << 30;

class ImageSource : public Source {
 public:
  explicit ImageSource(std::filesystem::path path) : path_(std::move(path)) {}

  std::int64_t frame_count() override { return 1; }
  double time_s(std::int64_t) const override { return 0.0; }

  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override {
    if (indices.empty()) return;
    sink(Frame{0, 0.0, decode()});
  }

 private:
  Image decode() const {
    const std::string bytes = read_text_file(path_, kMaxFileBytes);
    try {
      const ImageSize size = check_image(bytes);
      // As Pillow's convert("RGB"): the EXIF rotation is left alone, transparency is dropped.
      const cv::Mat raw(1, static_cast<int>(bytes.size()), CV_8U, const_cast<char*>(bytes.data()));
      const cv::Mat bgr = cv::imdecode(raw, cv::IMREAD_COLOR | cv::IMREAD_IGNORE_ORIENTATION);
      if (bgr.empty() || bgr.cols != size.width || bgr.rows != size.height) {
        throw DataError(concat("its ", to_string(image_format(bytes)),
                               " data is damaged and cannot be decoded"));
      }
      return to_rgb_image(bgr);
    } catch (const DataError& error) {
      throw DataError(concat("image '", path_.string(), "': ", error.what()));
    } catch (const cv::Exception& error) {
      throw DataError(concat("image '", path_.string(), "': cannot be decoded: ", error.err));
    }
  }

  std::filesystem::path path_;
};

}  // namespace

bool detect_image(std::string_view head, const std::filesystem::path&) {
  return image_format(head) != ImageFormat::kNone;
}

std::unique_ptr<Source> open_image(const std::filesystem::path& path, const ReaderOptions&) {
  configure_opencv();
  return std::make_unique<ImageSource>(path);
}

}  // namespace coldframe::frames
