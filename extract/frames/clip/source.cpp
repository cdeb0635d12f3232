// Clips through FFmpeg, in sequence from the first frame on: containers' frame counts are not to be
// trusted, and seeks only where what comes out shows that they were right.
#include <algorithm>
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
#include "extract/frames/clip/damage.h"
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

constexpr const char* kLost =
    "its data is damaged here; lost are the frames from the damaged one to the next key frame";

// What came out of decoding all of a clip.
struct DecodedClip {
  std::vector<PacketFacts> packets;
  std::vector<DecodedFacts> frames;
  bool is_intra_only = false, is_animation = false;
  AVRational unit{1, 1};  // of time stamps, in seconds
  std::string fault;      // why more may be lost behind these; "" where nothing is
};

std::vector<ClipSlot> slots_of(const DecodedClip& clip) {
  if (std::ranges::any_of(clip.packets, &PacketFacts::is_damaged) ||
      std::ranges::any_of(clip.frames, &DecodedFacts::is_damaged))
    return slots_of(clip.packets, clip.frames, clip.is_intra_only);
  std::vector<ClipSlot> slots;
  for (const DecodedFacts& frame : clip.frames)
    slots.push_back({std::ssize(slots), frame.timestamp});
  return slots;
}

class VideoSource : public FileSource {
 public:
  VideoSource(const SourceFile& file, const ReaderOptions& options)
      : FileSource("clip", file), options_(options) {}

  std::int64_t frame_count() override {
    if (times_.empty() && !count_by_part()) count_frames();
    return static_cast<std::int64_t>(times_.size());
  }

  double time_s(std::int64_t index) const override {
    return times_.at(static_cast<std::size_t>(index));
  }

  std::string lost_tail() const override { return lost_tail_; }
  std::vector<std::string> notes() const override { return notes_; }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

  bool wants_range() const override {
    return is_deep_ && options_.window.kind == Window::Kind::kPercentiles && !range_;
  }
  void survey(ValueSurvey& survey) override;
  void set_range(const ValueRange& range) override { range_ = range; }

 private:
  using Visit = std::function<void(std::int64_t index, const AVFrame* picture)>;

  void count_frames();
  bool count_by_part();
  DecodedClip decode_all();
  void look_at(const ClipDecoder& decoder);
  void keep(const ClipDecoder& decoder, bool& keeps);
  std::int64_t decoded_at(std::int64_t index) const;
  void visit(std::span<const std::int64_t> indices, const Visit& visit);
  void decode_again(std::span<const std::int64_t> indices, const Visit& visit);
  std::string named(const std::string& reason) const { return concat(name_, ": ", reason); }

  ReaderOptions options_;
  std::optional<ClipPart> part_;  // those between from_s and until_s, where they are found without
                                  // decoding all
  std::vector<ClipSlot> slots_;   // of every frame but the lost tail; empty with part_
  std::vector<double> times_;     // of every frame, once they were counted
  std::string lost_tail_;         // why the clip's last frame is incomplete
  std::vector<std::string> notes_;
  bool is_interlaced_ = false, is_deep_ = false;  // any frame
  std::optional<ValueRange> range_;               // found in the values of deep frames
  KeptFrames kept_;                               // all decoded ones (of part_), or none
  std::optional<ClipConverter> converter_;
};

// Of what is shown of a clip: its frames say more than its headers.
void VideoSource::look_at(const ClipDecoder& decoder) {
  const AVFrame& picture = decoder.picture();
  is_interlaced_ = is_interlaced_ || picture.interlaced_frame != 0;
  is_deep_ = is_deep_ || is_deep(picture.format);
}

void VideoSource::keep(const ClipDecoder& decoder, bool& keeps) {
  look_at(decoder);
  keeps = keeps && kept_.add(decoder.picture());
}

DecodedClip VideoSource::decode_all() {
  DecodedClip clip;
  ClipDecoder decoder(file_.open());
  converter_ = decoder.converter(options_);
  clip.is_intra_only = decoder.is_intra_only();
  clip.is_animation = is_animation(*decoder.input().stream().codecpar);
  clip.unit = decoder.input().stream().time_base;
  bool keeps = true;
  try {
    while (decoder.next()) {
      clip.frames.push_back(decoder.facts());
      keep(decoder, keeps);
    }
    clip.fault = decoder.fault();
  } catch (const DataError& error) {
    clip.fault = clip.frames.empty()
                     ? error.what()
                     : concat("frame ", clip.frames.size(), " cannot be decoded: ", error.what());
  }
  clip.packets = decoder.packets();
  notes_ = notes_on(decoder.input(), is_interlaced_, options_);
  return clip;
}

// False, and nothing has changed, where all must be decoded.
bool VideoSource::count_by_part() {
  if (std::isinf(options_.from_s) && std::isinf(options_.until_s)) return false;
  try {
    part_ = find_part(file_, options_.from_s, options_.until_s);
    bool keeps = true;
    const auto take = [&](const ClipDecoder& decoder) {
      if (!converter_) converter_ = decoder.converter(options_);
      keep(decoder, keeps);
      notes_ = notes_on(decoder.input(), is_interlaced_, options_);
    };
    if (part_ && decode_part(file_, *part_, take)) {
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
  std::string fault;
  try {
    check_container(*file_.open());
  } catch (const DataError& error) {
    fault = error.what();
  }
  DecodedClip clip;
  try {
    clip = decode_all();
  } catch (const DataError& error) {
    throw DataError(named(fault.empty() ? error.what() : fault));
  }
  if (fault.empty()) fault = clip.fault;
  slots_ = slots_of(clip);
  if (std::ranges::all_of(slots_, [](const ClipSlot& slot) { return slot.decoded < 0; })) {
    if (fault.empty()) fault = slots_.empty() ? "not one frame of it can be decoded" : kLost;
    throw DataError(named(fault));
  }
  if (!fault.empty())
    while (slots_.back().decoded < 0) slots_.pop_back();
  std::vector<std::int64_t> stamps;
  for (const ClipSlot& slot : slots_) stamps.push_back(slot.timestamp);
  if (!fault.empty() && !options_.accept_broken_tail) {
    lost_tail_ = named(concat(fault, "; ", plural(stamps.size(), "frame"),
                              " before that can be read, how many are lost is not known; ",
                              "--accept-broken-tail takes those that can be read for all"));
    stamps.push_back(AV_NOPTS_VALUE);
  }
  times_ = settle_times(stamps, clip.unit);
  if (std::string gap = gap_in(times_); !clip.is_animation && !gap.empty())
    notes_.push_back(std::move(gap));
}

// −1: it is lost.
std::int64_t VideoSource::decoded_at(std::int64_t index) const {
  return part_ ? index : slots_.at(static_cast<std::size_t>(index)).decoded;
}

// Decodes from the start once more, or from the part's.
void VideoSource::decode_again(std::span<const std::int64_t> indices, const Visit& visit) {
  ClipDecoder decoder(file_.open());
  std::int64_t at = -1;
  if (part_ && indices.front() >= part_->key) {
    if (!go_to_key(decoder, *part_)) throw DataError("it cannot be read any more");
    at = part_->key;
  }
  for (const std::int64_t index : indices) {
    const std::int64_t wanted = decoded_at(index);
    if (wanted < 0) {
      visit(index, nullptr);
      continue;
    }
    while (at < wanted && decoder.next()) ++at;
    if (at != wanted) throw DataError(concat("frame ", index, " cannot be decoded any more"));
    visit(index, &decoder.picture());
  }
}

void VideoSource::visit(std::span<const std::int64_t> indices, const Visit& visit) {
  const std::int64_t first = part_ ? part_->first : 0;
  const bool kept = !part_ || (part_->contains(indices.front()) && part_->contains(indices.back()));
  if (kept_.empty() || !kept) return decode_again(indices, visit);
  for (const std::int64_t index : indices) {
    const std::int64_t decoded = decoded_at(index);
    visit(index, decoded < 0 ? nullptr : &kept_.at(decoded - first));
  }
}

void VideoSource::read(std::span<const std::int64_t> indices,
                       const std::function<void(Frame&&)>& sink) {
  if (indices.empty()) return;
  if (indices.back() == frame_count() - 1 && !lost_tail_.empty()) throw DataError(lost_tail_);
  if (range_) converter_->set_range(*range_);
  try {
    visit(indices, [&](std::int64_t index, const AVFrame* picture) {
      Frame frame{index, time_s(index), {}};
      if (picture != nullptr)
        frame.pixels = converter_->to_image(*picture);
      else
        frame.fault = named(kLost);
      sink(std::move(frame));
    });
  } catch (const DataError& error) {
    throw UnreadableFromHere(named(error.what()));
  }
}

void VideoSource::survey(ValueSurvey& survey) {
  std::vector<std::int64_t> indices;
  const std::int64_t first = part_ ? part_->first : 0;
  const std::int64_t end = part_ ? part_->last : std::ssize(slots_);
  for (std::int64_t index = first; index < end; ++index) indices.push_back(index);
  visit(indices, [&](std::int64_t, const AVFrame* picture) {
    if (picture != nullptr && is_deep(picture->format)) converter_->survey(*picture, survey);
  });
}

std::unique_ptr<Source> open_video(const SourceFile& file, const ReaderOptions& options) {
  if (options.estimate) return estimate_clip(file, options);
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
