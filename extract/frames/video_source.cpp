// Clips through OpenCV's FFmpeg reader, strictly in sequence: containers' frame counts and seeks
// are not to be trusted.
#include <algorithm>
#include <array>
#include <limits>
#include <opencv2/videoio.hpp>
#include <vector>

#include "common/error.h"
#include "common/text.h"
#include "extract/frames/clip_times.h"
#include "extract/frames/container.h"
#include "extract/frames/kinds.h"
#include "extract/frames/opencv_settings.h"

namespace coldframe::frames {
namespace {

constexpr double kMaxPixels = 1 << 28;

class VideoSource : public Source {
 public:
  // Absolute, so that FFmpeg cannot take a part of the name for a protocol.
  explicit VideoSource(const std::filesystem::path& path)
      : path_(std::filesystem::absolute(path)) {}

  std::int64_t frame_count() override {
    if (times_.empty()) count_frames();
    return static_cast<std::int64_t>(times_.size());
  }

  double time_s(std::int64_t index) const override {
    return times_.at(static_cast<std::size_t>(index));
  }

  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

 private:
  cv::VideoCapture open() const;
  void count_frames();
  void read_frames(std::span<const std::int64_t> indices, const std::function<void(Frame&&)>& sink);
  [[noreturn]] void refuse(const std::string& reason) const {
    throw DataError(concat("clip '", path_.string(), "': ", reason));
  }

  std::filesystem::path path_;
  std::vector<double> times_;  // of every frame, once they were counted
};

cv::VideoCapture VideoSource::open() const {
  cv::VideoCapture capture;
  try {
    capture.open(path_.string(), cv::CAP_FFMPEG);
  } catch (const cv::Exception&) {
    capture.release();
  }
  if (!capture.isOpened()) {
    refuse("it cannot be opened: damaged, truncated, or of a codec that FFmpeg does not know");
  }
  const double width = capture.get(cv::CAP_PROP_FRAME_WIDTH);
  const double height = capture.get(cv::CAP_PROP_FRAME_HEIGHT);
  if (width * height > kMaxPixels)
    refuse(concat("its frames have ", width, "×", height, " pixels"));
  return capture;
}

void VideoSource::count_frames() {
  try {
    check_container(InputFile(path_));
  } catch (const DataError& error) {
    refuse(error.what());
  }
  try {
    cv::VideoCapture capture = open();
    while (capture.grab()) times_.push_back(capture.get(cv::CAP_PROP_POS_MSEC) / 1000.0);
  } catch (const cv::Exception& error) {
    refuse(concat("it cannot be decoded: ", error.err));
  }
  if (times_.empty()) refuse("not one frame of it can be decoded");
  times_ = settle_times(std::move(times_));
}

void VideoSource::read(std::span<const std::int64_t> indices,
                       const std::function<void(Frame&&)>& sink) {
  if (indices.empty()) return;
  try {
    read_frames(indices, sink);
  } catch (const cv::Exception& error) {
    refuse(concat("it cannot be decoded: ", error.err));
  }
}

void VideoSource::read_frames(std::span<const std::int64_t> indices,
                              const std::function<void(Frame&&)>& sink) {
  cv::VideoCapture capture = open();
  cv::Mat bgr;
  std::int64_t at = -1;
  for (const std::int64_t index : indices) {
    while (at < index && capture.grab()) ++at;
    if (at != index || !capture.retrieve(bgr) || bgr.type() != CV_8UC3) {
      refuse(concat("frame ", index, " cannot be decoded"));
    }
    if (static_cast<double>(bgr.total()) > kMaxPixels)
      refuse(concat("frame ", index, " has ", bgr.cols, "×", bgr.rows, " pixels"));
    const bool known = static_cast<std::size_t>(index) < times_.size();
    sink(Frame{
        index,
        known ? times_[static_cast<std::size_t>(index)] : std::numeric_limits<double>::quiet_NaN(),
        to_rgb_image(bgr)});
  }
}

// ISO base media files (MP4, QuickTime) start with one of these boxes; HEIF and AVIF images too.
bool is_iso_media(std::string_view head) {
  if (head.size() < 12) return false;
  const std::string_view box = head.substr(4, 4), brand = head.substr(8, 4);
  constexpr std::array<std::string_view, 6> kBoxes{"moov", "mdat", "wide", "free", "skip", "pnot"};
  constexpr std::array<std::string_view, 6> kImages{"heic", "heix", "mif1", "msf1", "avif", "avis"};
  if (box == "ftyp") return std::find(kImages.begin(), kImages.end(), brand) == kImages.end();
  return std::find(kBoxes.begin(), kBoxes.end(), box) != kBoxes.end();
}

bool is_transport_stream(std::string_view head) {
  return head.size() > 376 && head[0] == 'G' && head[188] == 'G' && head[376] == 'G';
}

}  // namespace

bool detect_video(std::string_view head, const std::filesystem::path&) {
  using std::string_view_literals::operator""sv;
  constexpr std::array kSignatures{
      "GIF87a"sv,
      "GIF89a"sv,
      "\x1a\x45\xdf\xa3"sv,  // Matroska, WebM
      "\x00\x00\x01\xba"sv,
      "\x00\x00\x01\xb3"sv,  // MPEG program, video
      "OggS"sv,
      "FLV\x01"sv,
      "\x30\x26\xb2\x75\x8e\x66\xcf\x11"sv,  // WMV
  };
  for (const std::string_view signature : kSignatures) {
    if (head.starts_with(signature)) return true;
  }
  const bool avi = head.starts_with("RIFF") && head.size() >= 12 && head.substr(8, 4) == "AVI ";
  return avi || is_iso_media(head) || is_transport_stream(head);
}

std::unique_ptr<Source> open_video(const std::filesystem::path& path, const ReaderOptions&) {
  configure_opencv();
  return std::make_unique<VideoSource>(path);
}

}  // namespace coldframe::frames
