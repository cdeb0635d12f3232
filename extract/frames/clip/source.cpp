// Clips through FFmpeg, strictly in sequence: containers' frame counts and seeks are not to be
// trusted.
#include <new>
#include <vector>

#include "common/error.h"
#include "common/text.h"
#include "extract/frames/clip/container.h"
#include "extract/frames/clip/decoder.h"
#include "extract/frames/clip/times.h"
#include "extract/frames/kinds.h"

namespace coldframe::frames {
namespace {

// Frames that counting decodes are kept up to this size, so that a short clip is decoded once.
constexpr std::size_t kKeptBytes = 64 << 20;

class VideoSource : public Source {
 public:
  VideoSource(std::filesystem::path path, bool accept_broken_tail)
      : path_(std::move(path)), accept_broken_tail_(accept_broken_tail) {}

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
  void count_frames();
  void decode_all(std::vector<double>& times);
  void keep(const AVFrame& picture);
  Frame frame(std::int64_t index, const AVFrame& picture, ClipDecoder& decoder) const;
  [[noreturn]] void refuse(const std::string& reason) const {
    throw DataError(concat("clip '", path_.string(), "': ", reason));
  }

  std::filesystem::path path_;
  bool accept_broken_tail_;
  std::vector<double> times_;             // of every frame, once they were counted
  std::unique_ptr<ClipDecoder> decoder_;  // that made kept_
  std::vector<FramePointer> kept_;        // all frames, or none
  std::size_t kept_bytes_ = 0;
};

void VideoSource::keep(const AVFrame& picture) {
  for (const AVBufferRef* plane : picture.buf) kept_bytes_ += plane == nullptr ? 0 : plane->size;
  if (kept_bytes_ > kKeptBytes) return kept_.clear();
  kept_.emplace_back(av_frame_clone(&picture));
  if (!kept_.back()) throw std::bad_alloc();
}

void VideoSource::decode_all(std::vector<double>& times) {
  decoder_ = std::make_unique<ClipDecoder>(path_);
  while (decoder_->next()) {
    times.push_back(decoder_->time_s());
    keep(decoder_->picture());
  }
}

void VideoSource::count_frames() {
  std::vector<double> times;
  std::string fault;
  try {
    check_container(InputFile(path_));
  } catch (const DataError& error) {
    fault = error.what();
  }
  try {
    decode_all(times);
  } catch (const DataError& error) {
    if (fault.empty()) {
      fault = times.empty() ? error.what()
                            : concat("frame ", times.size(), " is damaged: ", error.what());
    }
  }
  if (times.empty()) refuse(fault.empty() ? "not one frame of it can be decoded" : fault);
  if (!fault.empty() && !accept_broken_tail_) {
    refuse(concat(fault, "; ", plural(times.size(), "frame"),
                  " before that can be read, which --accept-broken-tail takes"));
  }
  if (kept_.empty()) decoder_.reset();
  times_ = settle_times(std::move(times));
}

Frame VideoSource::frame(std::int64_t index, const AVFrame& picture, ClipDecoder& decoder) const {
  return Frame{index, time_s(index), decoder.to_image(picture)};
}

void VideoSource::read(std::span<const std::int64_t> indices,
                       const std::function<void(Frame&&)>& sink) {
  if (indices.empty()) return;
  frame_count();
  try {
    if (!kept_.empty()) {
      for (const std::int64_t index : indices) {
        sink(frame(index, *kept_.at(static_cast<std::size_t>(index)), *decoder_));
      }
      return;
    }
    ClipDecoder decoder(path_);
    std::int64_t at = -1;
    for (const std::int64_t index : indices) {
      while (at < index && decoder.next()) ++at;
      if (at != index) throw DataError(concat("frame ", index, " cannot be decoded any more"));
      sink(frame(index, decoder.picture(), decoder));
    }
  } catch (const DataError& error) {
    refuse(error.what());
  }
}

}  // namespace

bool detect_video(std::string_view head, const std::filesystem::path&) {
  return clip_demuxer(head) != nullptr;
}

std::unique_ptr<Source> open_video(const std::filesystem::path& path,
                                   const ReaderOptions& options) {
  return std::make_unique<VideoSource>(path, options.accept_broken_tail);
}

}  // namespace coldframe::frames
