// Clips through FFmpeg, in sequence from the first frame on: containers' frame counts are not to be
// trusted, and seeks only where what comes out shows that they were right.
#include <atomic>
#include <cmath>
#include <memory>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/clip/container.h"
#include "extract/frames/clip/decoder.h"
#include "extract/frames/clip/estimate.h"
#include "extract/frames/clip/seek.h"
#include "extract/frames/clip/times.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

// Frames that counting decodes are kept, so that a short clip is decoded once: up to this size in
// all open clips of one thread, since one thread reads all clips of an exam.
constexpr std::size_t kKeptBytes = 128 << 20;

// Decoded frames and their part of that allowance, which is given back wherever they end.
class KeptFrames {
 public:
  KeptFrames() = default;
  ~KeptFrames() { clear(); }
  KeptFrames(const KeptFrames&) = delete;
  KeptFrames& operator=(const KeptFrames&) = delete;

  // False, and nothing is kept any more, when the allowance is spent.
  bool add(const AVFrame& picture);
  void clear();
  bool empty() const { return frames_.empty(); }
  const AVFrame& at(std::int64_t index) const {
    return *frames_.at(static_cast<std::size_t>(index));
  }

 private:
  using Total = std::atomic<std::size_t>;
  static const std::shared_ptr<Total>& total_of_thread() {
    thread_local const auto total = std::make_shared<Total>(0);
    return total;
  }

  std::shared_ptr<Total> total_ = total_of_thread();
  std::size_t bytes_ = 0;
  std::vector<FramePointer> frames_;
};

bool KeptFrames::add(const AVFrame& picture) {
  std::size_t bytes = 0;
  for (const AVBufferRef* plane : picture.buf) bytes += plane == nullptr ? 0 : plane->size;
  bytes_ += bytes;
  if ((*total_ += bytes) > kKeptBytes) {
    clear();
    return false;
  }
  frames_.emplace_back(av_frame_clone(&picture));
  if (!frames_.back()) throw std::bad_alloc();
  return true;
}

void KeptFrames::clear() {
  frames_.clear();
  *total_ -= std::exchange(bytes_, 0);
}

class VideoSource : public FileSource {
 public:
  VideoSource(const SourceFile& file, const ReaderOptions& options)
      : FileSource("clip", file),
        accept_broken_tail_(options.accept_broken_tail),
        from_s_(options.from_s),
        until_s_(options.until_s) {}

  std::int64_t frame_count() override {
    if (times_.empty() && !count_by_part()) count_frames();
    return static_cast<std::int64_t>(times_.size());
  }

  double time_s(std::int64_t index) const override {
    return times_.at(static_cast<std::size_t>(index));
  }

  std::string lost_tail() const override { return lost_tail_; }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

 private:
  void count_frames();
  bool count_by_part();
  void decode_all(std::vector<double>& times);
  void decode_again(std::span<const std::int64_t> indices,
                    const std::function<void(Frame&&)>& sink);
  std::string named(const std::string& reason) const { return concat(name_, ": ", reason); }

  bool accept_broken_tail_;
  double from_s_, until_s_;                 // frames outside are not asked for
  std::optional<ClipPart> part_;            // these, where they are found without decoding all
  std::vector<double> times_;               // of every frame, once they were counted
  std::string lost_tail_;                   // why the clip's last frame is incomplete
  KeptFrames kept_;                         // all frames (of part_, if there is one), or none
  std::optional<ClipConverter> converter_;  // of kept_
};

void VideoSource::decode_all(std::vector<double>& times) {
  ClipDecoder decoder(file_.open());
  converter_ = decoder.converter();
  bool keeps = true;
  while (decoder.next()) {
    times.push_back(decoder.time_s());
    keeps = keeps && kept_.add(decoder.picture());
  }
}

// False, and nothing has changed, where all must be decoded.
bool VideoSource::count_by_part() {
  if (std::isinf(from_s_) && std::isinf(until_s_)) return false;
  try {
    part_ = find_part(file_, from_s_, until_s_);
    bool keeps = true;
    const auto keep = [&](const ClipDecoder& decoder) {
      if (!converter_) converter_ = decoder.converter();
      keeps = keeps && kept_.add(decoder.picture());
    };
    if (part_ && decode_part(file_, *part_, keep)) {
      times_ = part_->times;
      return true;
    }
  } catch (const DataError&) {  // decoding all says what is wrong, and where
  }
  part_.reset();
  converter_.reset();
  kept_.clear();
  return false;
}

void VideoSource::count_frames() {
  std::vector<double> times;
  std::string fault;
  try {
    check_container(*file_.open());
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
  if (times.empty()) {
    throw DataError(named(fault.empty() ? "not one frame of it can be decoded" : fault));
  }
  if (!fault.empty() && !accept_broken_tail_) {
    lost_tail_ = named(concat(fault, "; ", plural(times.size(), "frame"),
                              " before that can be read, how many are lost is not known; ",
                              "--accept-broken-tail takes those that can be read for all"));
    times.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  times_ = settle_times(std::move(times));
}

// Decodes from the start once more, or from the part's.
void VideoSource::decode_again(std::span<const std::int64_t> indices,
                               const std::function<void(Frame&&)>& sink) {
  ClipDecoder decoder(file_.open());
  ClipConverter converter = decoder.converter();
  std::int64_t at = -1;
  if (part_ && indices.front() >= part_->key) {
    if (!go_to_key(decoder, *part_)) throw DataError("it cannot be read any more");
    at = part_->key;
  }
  for (const std::int64_t index : indices) {
    while (at < index && decoder.next()) ++at;
    if (at != index) throw DataError(concat("frame ", index, " cannot be decoded any more"));
    sink(Frame{index, time_s(index), converter.to_image(decoder.picture())});
  }
}

void VideoSource::read(std::span<const std::int64_t> indices,
                       const std::function<void(Frame&&)>& sink) {
  if (indices.empty()) return;
  if (indices.back() == frame_count() - 1 && !lost_tail_.empty()) throw DataError(lost_tail_);
  try {
    const std::int64_t first = part_ ? part_->first : 0;
    const bool kept =
        !part_ || (part_->contains(indices.front()) && part_->contains(indices.back()));
    if (kept_.empty() || !kept) return decode_again(indices, sink);
    for (const std::int64_t index : indices)
      sink(Frame{index, time_s(index), converter_->to_image(kept_.at(index - first))});
  } catch (const DataError& error) {
    throw UnreadableFromHere(named(error.what()));
  }
}

std::unique_ptr<Source> open_video(const SourceFile& file, const ReaderOptions& options) {
  if (options.estimate) return estimate_clip(file, options.accept_broken_tail);
  return std::make_unique<VideoSource>(file, options);
}

}  // namespace

extern const SourceKind kVideoKind;
constinit const SourceKind kVideoKind{
    .name = "video",
    .contents = "MP4, MOV, AVI, MPEG, MKV, WebM, WMV, Ogg, GIF, animated PNG",
    .suffixes = ".mp4 .mov .avi .mpg .mpeg .mkv .webm .wmv .m4v .gif",
    .other_suffixes = ".apng .ogg .ogv .asf .flv .ts .mts .m2ts .vob .m2v .3gp .qt",
    .detect = [](const SourceFile& file) { return clip_demuxer(file.head()) != nullptr; },
    .open = open_video};

}  // namespace coldframe::frames
