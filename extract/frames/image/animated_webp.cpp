// Animated WebP through libwebp's own animation decoder, which Pillow uses too.
// Source: the WebP container specification, "Extended File Format".
#include <webp/demux.h>

#include <memory>
#include <string>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/image/header.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

constexpr double kMillisecond = 1e-3;

struct FreeDemuxer {
  void operator()(WebPDemuxer* demuxer) const { WebPDemuxDelete(demuxer); }
};
struct FreeDecoder {
  void operator()(WebPAnimDecoder* decoder) const { WebPAnimDecoderDelete(decoder); }
};

[[noreturn]] void damaged_webp() {
  throw DataError("its WebP data is damaged and cannot be decoded");
}

WebPData data_of(const std::string& bytes) {
  return {reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size()};
}

// The times at which frames are shown, in seconds since the first.
std::vector<double> frame_times(const std::string& bytes) {
  const WebPData data = data_of(bytes);
  const std::unique_ptr<WebPDemuxer, FreeDemuxer> demuxer(WebPDemux(&data));
  if (!demuxer) damaged_webp();
  std::vector<double> times;
  std::int64_t now_ms = 0;
  WebPIterator frame{};
  for (int more = WebPDemuxGetFrame(demuxer.get(), 1, &frame); more != 0;
       more = WebPDemuxNextFrame(&frame)) {
    times.push_back(static_cast<double>(now_ms) * kMillisecond);
    now_ms += frame.duration;
  }
  WebPDemuxReleaseIterator(&frame);
  if (times.empty()) damaged_webp();
  return times;
}

// Each frame as it is shown, over what the ones before it left; one after another.
class Animation {
 public:
  explicit Animation(const std::string& bytes) {
    WebPAnimDecoderOptions options{};
    WebPAnimDecoderOptionsInit(&options);
    options.color_mode = MODE_RGBA;
    const WebPData data = data_of(bytes);
    decoder_.reset(WebPAnimDecoderNew(&data, &options));
    if (!decoder_ || WebPAnimDecoderGetInfo(decoder_.get(), &info_) == 0) damaged_webp();
  }

  void next() {
    int end_ms = 0;
    if (WebPAnimDecoderGetNext(decoder_.get(), &rgba_, &end_ms) == 0) damaged_webp();
  }

  // Drops the transparency, as Pillow's convert("RGB") does.
  Image image() const {
    const std::size_t count = std::size_t{info_.canvas_width} * info_.canvas_height;
    Image image{static_cast<int>(info_.canvas_width), static_cast<int>(info_.canvas_height),
                std::vector<std::uint8_t>(3 * count)};
    for (std::size_t i = 0; i < count; ++i) {
      for (std::size_t channel = 0; channel < 3; ++channel) {
        image.rgb[3 * i + channel] = rgba_[4 * i + channel];
      }
    }
    return image;
  }

 private:
  std::unique_ptr<WebPAnimDecoder, FreeDecoder> decoder_;
  WebPAnimInfo info_{};
  std::uint8_t* rgba_ = nullptr;  // the decoder's
};

class AnimatedWebp : public FileSource {
 public:
  AnimatedWebp(const SourceFile& file, const ReaderOptions&) : FileSource("clip", file) {}

  std::int64_t frame_count() override {
    if (times_.empty()) guarded([&] { times_ = frame_times(content()); });
    return static_cast<std::int64_t>(times_.size());
  }
  double time_s(std::int64_t index) const override {
    return times_.at(static_cast<std::size_t>(index));
  }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

 private:
  std::string content() const {
    std::string bytes = file_.content(kMaxImageFileBytes);
    check_image(bytes);
    return bytes;
  }

  std::vector<double> times_;
};

void AnimatedWebp::read(std::span<const std::int64_t> indices,
                        const std::function<void(Frame&&)>& sink) {
  if (indices.empty()) return;
  frame_count();
  std::string bytes;
  std::unique_ptr<Animation> animation;
  std::int64_t at = -1;
  for (const std::int64_t index : indices) {
    Frame frame{index, time_s(index), {}};
    const auto decode = [&] {
      if (!animation) {
        bytes = content();
        animation = std::make_unique<Animation>(bytes);
      }
      for (; at < index; ++at) animation->next();
      frame.pixels = animation->image();
    };
    try {
      guarded(decode);
    } catch (const DataError& error) {
      throw UnreadableFromHere(error.what());  // later frames are painted over it
    }
    sink(std::move(frame));
  }
}

}  // namespace

extern const SourceKind kAnimatedWebpKind;
constinit const SourceKind kAnimatedWebpKind{
    .name = "webp",
    .contents = "animated WebP",
    .detect = [](const SourceFile& file) { return is_animated_webp(file.head()); },
    .open = open_as<AnimatedWebp>};

}  // namespace coldframe::frames
