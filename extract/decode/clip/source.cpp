#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/decode/clip/decoder.h"
#include "extract/decode/clip/packets.h"
#include "extract/decode/source.h"
#include "extract/decode/source_file.h"

namespace coldframe::frames {

// A look at a clip that costs little: its frames are counted by their packets, and few are decoded.

// Counts and times come out as the job's unless packets and frames differ, as in damaged clips. The
// pictures stand for those that were asked for: key frames before them, or, where a clip has few,
// its first ones.
std::unique_ptr<Source> estimate_clip(const SourceFile& file, const ReaderOptions& options);

// A part of a clip that can be decoded without all that lies before it.

// Frames [first, last) of a clip, of which decoding begins at the key frame `key`.
struct ClipPart {
  std::int64_t key = 0, first = 0, last = 0;
  std::vector<double> times;             // of all frames, as settle_times() leaves them
  std::vector<std::int64_t> timestamps;  // the same in the stream's units

  bool contains(std::int64_t index) const { return index >= first && index < last; }
};

// The part from `from_s` on and before `until_s`, in seconds since the clip's first frame. Empty
// where packets may not tell which frames there are (only MP4, QuickTime and Matroska with codecs
// of a frame per packet are trusted, and each packet's time), where seeking saves nothing, or where
// no frame lies there.
std::optional<ClipPart> find_part(const SourceFile& file, double from_s, double until_s);

// Hands over the part's frames in order. False where they are not those that the packets told of,
// at the clip's start or here: then all must be decoded. DataError as ClipDecoder::next().
template <typename Sink>
bool decode_part(const SourceFile& file, const ClipPart& part, const Sink& sink);

// False unless the clip's first frames are those that its packets tell of.
bool starts_as_told(const SourceFile& file, const ClipPart& part);

// Brings the decoder to the part's key frame, which next() has decoded then. False where it cannot.
bool go_to_key(ClipDecoder& decoder, const ClipPart& part);

template <typename Sink>
bool decode_part(const SourceFile& file, const ClipPart& part, const Sink& sink) {
  if (!starts_as_told(file, part)) return false;
  ClipDecoder decoder(file.open());
  if (!go_to_key(decoder, part)) return false;
  for (std::int64_t at = part.key; at < part.last; ++at) {
    if (at > part.key && !decoder.next()) return false;
    if (decoder.is_damaged() ||
        decoder.picture().best_effort_timestamp != part.timestamps[static_cast<std::size_t>(at)])
      return false;
    if (at >= part.first) sink(decoder);
  }
  return std::ranges::none_of(decoder.packets(), &PacketFacts::is_damaged);
}

namespace {

class ClipEstimate : public FileSource {
 public:
  ClipEstimate(const SourceFile& file, const ReaderOptions& options)
      : FileSource("clip", file), options_(options) {
    guarded([this] { look(); });
  }

  std::int64_t frame_count() override { return static_cast<std::int64_t>(times_.size()); }
  double time_s(std::int64_t index) const override {
    return times_.at(static_cast<std::size_t>(index));
  }
  std::string lost_tail() const override { return lost_tail_; }
  std::vector<std::string> notes() const override { return notes_; }
  bool wants_range() const override {
    return is_deep_ && options_.window.kind == Window::Kind::kPercentiles && !range_;
  }
  void set_range(const ValueRange& range) override { range_ = range; }
  void survey(ValueSurvey& survey) override;
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

 private:
  void look();
  std::vector<std::size_t> keys_of(std::span<const std::int64_t> indices) const;

  ReaderOptions options_;
  std::vector<ClipPacket> packets_;  // in presentation order
  std::vector<double> times_;
  std::string lost_tail_;
  std::vector<std::string> notes_;
  bool is_deep_ = false;
  std::optional<ValueRange> range_;
};

bool is_interlaced(const AVStream& stream) {
  const AVFieldOrder order = stream.codecpar->field_order;
  return order != AV_FIELD_UNKNOWN && order != AV_FIELD_PROGRESSIVE;
}

void ClipEstimate::look() {
  ClipInput input(file_.open());
  ClipPackets packets = read_packets(input);
  packets_ = std::move(packets.shown);
  const std::string& fault = packets.fault;
  if (packets_.empty()) {
    throw DataError(fault.empty() ? "not one frame of it can be found" : fault);
  }
  notes_ = notes_on(input, is_interlaced(input.stream()), options_);
  is_deep_ = is_deep(input.stream().codecpar->format);
  std::vector<std::int64_t> stamps;
  for (const ClipPacket& packet : packets_)
    stamps.push_back(input.has_clock() ? packet.timestamp : AV_NOPTS_VALUE);
  if (!fault.empty() && !options_.accept_broken_tail) {
    lost_tail_ = concat(name_, ": ", fault, "; about ", plural(stamps.size(), "frame"),
                        " before that may be readable");
    stamps.push_back(AV_NOPTS_VALUE);
  }
  times_ = settle_times(stamps, input.stream().time_base);
  if (std::string gap = gap_in(times_); !is_animation(*input.stream().codecpar) && !gap.empty())
    notes_.push_back(std::move(gap));
  const AVRational rate = input.stream().avg_frame_rate;
  if (!std::isnan(times_.front()) || rate.num <= 0 || !input.has_clock()) return;
  for (std::size_t i = 0; i < times_.size(); ++i) {  // not all packets of MPEG streams have a time
    times_[i] = static_cast<double>(i) * rate.den / rate.num;
  }
}

// The key frames before the given frames, each once; none where they are too few to stand for them.
std::vector<std::size_t> ClipEstimate::keys_of(std::span<const std::int64_t> indices) const {
  std::vector<std::size_t> keys;
  for (const std::int64_t index : indices) {
    auto at = std::min(static_cast<std::size_t>(index), packets_.size() - 1);
    while (at > 0 && !packets_[at].is_key) --at;
    if (packets_[at].timestamp == AV_NOPTS_VALUE) return {};
    if (keys.empty() || keys.back() != at) keys.push_back(at);
  }
  return 2 * keys.size() > indices.size() ? keys : std::vector<std::size_t>();
}

void ClipEstimate::read(std::span<const std::int64_t> indices,
                        const std::function<void(Frame&&)>& sink) {
  if (indices.empty()) return;
  const std::vector<std::size_t> keys = keys_of(indices);
  std::optional<ClipDecoder> decoder;
  guarded([&] { decoder.emplace(file_.open()); });
  ClipConverter converter = decoder->converter(options_);
  if (range_) converter.set_range(*range_);
  Image last;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    guarded([&] {
      if (i < keys.size() && indices.size() > 1) decoder->go_to(packets_[keys[i]].timestamp);
      if ((keys.empty() || i < keys.size()) && decoder->next()) {
        if (decoder->is_damaged()) throw DataError("its data is damaged");
        last = converter.to_image(decoder->picture());
      }
      if (last.rgb.empty()) throw DataError("not one frame of it can be decoded");
    });
    sink(Frame{indices[i], time_s(indices[i]), last});
  }
}

// Of a few frames.
void ClipEstimate::survey(ValueSurvey& survey) {
  constexpr int kSurveyed = 8;
  ClipDecoder decoder(file_.open());
  ClipConverter converter = decoder.converter(options_);
  for (int i = 0; i < kSurveyed && decoder.next(); ++i) converter.survey(decoder.picture(), survey);
}

}  // namespace

std::unique_ptr<Source> estimate_clip(const SourceFile& file, const ReaderOptions& options) {
  return std::make_unique<ClipEstimate>(file, options);
}

namespace {

constexpr std::int64_t kCheckedFrames = 8;  // at the clip's start

// Each packet is a frame there and tells when it is shown. Others hide frames, show one twice or
// know times of decoding alone.
bool is_trusted(const ClipInput& input) {
  constexpr std::array kCodecs = {AV_CODEC_ID_H264,   AV_CODEC_ID_HEVC,  AV_CODEC_ID_MJPEG,
                                  AV_CODEC_ID_PRORES, AV_CODEC_ID_DNXHD, AV_CODEC_ID_FFV1};
  const std::string_view container = input.demuxer();
  return (container.starts_with("mov") || container.starts_with("matroska")) &&
         std::ranges::find(kCodecs, input.stream().codecpar->codec_id) != kCodecs.end();
}

bool rises(const std::vector<std::int64_t>& timestamps) {
  return std::ranges::adjacent_find(timestamps, std::greater_equal<>()) == timestamps.end();
}

}  // namespace

std::optional<ClipPart> find_part(const SourceFile& file, double from_s, double until_s) {
  ClipInput input(file.open());
  if (!is_trusted(input)) return std::nullopt;
  const ClipPackets packets = read_packets(input);
  if (!packets.fault.empty() || !packets.all_shown_when_told || packets.shown.empty()) return {};
  ClipPart part;
  for (const ClipPacket& packet : packets.shown) part.timestamps.push_back(packet.timestamp);
  if (!rises(part.timestamps)) return std::nullopt;
  part.times = settle_times(part.timestamps, input.stream().time_base);
  const auto index_of = [&](double bound) {
    return std::ranges::find_if(part.times, [&](double time) { return reaches(time, bound); }) -
           part.times.begin();
  };
  part.first = index_of(from_s);
  part.last = index_of(until_s);
  if (part.first >= part.last) return std::nullopt;
  part.key = part.first;
  while (part.key > 0 && !packets.shown[static_cast<std::size_t>(part.key)].is_key) --part.key;
  const bool saves = part.key > kCheckedFrames || part.last < std::ssize(part.times);
  return saves && packets.shown[static_cast<std::size_t>(part.key)].is_key
             ? std::optional(std::move(part))
             : std::nullopt;
}

bool starts_as_told(const SourceFile& file, const ClipPart& part) {
  ClipDecoder decoder(file.open());
  const auto count = std::min<std::int64_t>(kCheckedFrames, std::ssize(part.timestamps));
  for (std::int64_t i = 0; i < count; ++i) {
    if (!decoder.next() || decoder.is_damaged() ||
        decoder.picture().best_effort_timestamp != part.timestamps[static_cast<std::size_t>(i)])
      return false;
  }
  return true;
}

// Frames that are shown before the key frame and stored after it need what lies before.
bool go_to_key(ClipDecoder& decoder, const ClipPart& part) {
  const std::int64_t key = part.timestamps[static_cast<std::size_t>(part.key)];
  if (part.key > 0 && !decoder.go_to(key)) return false;
  while (decoder.next())
    if (decoder.picture().best_effort_timestamp >= key) return true;
  return false;
}

// Clips through FFmpeg, in sequence from the first frame on: containers' frame counts are not to be
// trusted, and seeks only where what comes out shows that they were right.

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
  std::string fault;      // why more may be lost after these; "" where nothing is
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
