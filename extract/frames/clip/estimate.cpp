#include "extract/frames/clip/estimate.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <optional>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/text/text.h"
#include "extract/frames/clip/container.h"
#include "extract/frames/clip/decoder.h"
#include "extract/frames/clip/times.h"

namespace coldframe::frames {
namespace {

// What a packet says of its frame.
struct PacketFacts {
  std::int64_t timestamp = AV_NOPTS_VALUE;
  bool is_key = false;
};

double seconds_of(std::int64_t timestamp, const AVRational& unit) {
  if (timestamp == AV_NOPTS_VALUE) return std::numeric_limits<double>::quiet_NaN();
  return static_cast<double>(timestamp) * unit.num / unit.den;
}

class ClipEstimate : public Source {
 public:
  ClipEstimate(std::filesystem::path path, bool accept_broken_tail)
      : path_(std::move(path)), accept_broken_tail_(accept_broken_tail) {
    guarded([this] { look(); });
  }

  std::int64_t frame_count() override { return static_cast<std::int64_t>(times_.size()); }
  double time_s(std::int64_t index) const override {
    return times_.at(static_cast<std::size_t>(index));
  }
  std::string lost_tail() const override { return lost_tail_; }
  void read(std::span<const std::int64_t> indices,
            const std::function<void(Frame&&)>& sink) override;

 private:
  template <typename Work>
  void guarded(const Work& work) const {
    in_context(concat("clip '", path_.string(), "'"), work);
  }
  void look();
  std::string read_packets(ClipInput& input);
  std::vector<std::size_t> keys_of(std::span<const std::int64_t> indices) const;

  std::filesystem::path path_;
  bool accept_broken_tail_;
  std::vector<PacketFacts> packets_;  // in the order of presentation
  std::vector<double> times_;
  std::string lost_tail_;
};

// Returns what is wrong with the container; "" where nothing is.
std::string ClipEstimate::read_packets(ClipInput& input) {
  const std::unique_ptr<AVPacket, FfmpegDeleter<av_packet_free>> packet(av_packet_alloc());
  if (!packet) throw std::bad_alloc();
  const AVCodecID codec = input.stream().codecpar->codec_id;
  const bool has_keys = codec != AV_CODEC_ID_GIF && codec != AV_CODEC_ID_APNG;
  std::string fault;
  try {
    check_container(InputFile(path_));
  } catch (const DataError& error) {
    fault = error.what();
  }
  try {
    while (input.read(*packet)) {
      if (packet->flags & AV_PKT_FLAG_CORRUPT) {
        return fault.empty() ? "its data is cut off or damaged" : fault;
      }
      if (packet->size == 0 || packet->flags & AV_PKT_FLAG_DISCARD) continue;
      const bool is_key = has_keys && packet->flags & AV_PKT_FLAG_KEY;
      packets_.push_back({packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts, is_key});
    }
  } catch (const DataError& error) {
    if (fault.empty()) fault = error.what();
  }
  return fault;
}

void ClipEstimate::look() {
  ClipInput input(path_);
  const std::string fault = read_packets(input);
  if (packets_.empty()) {
    throw DataError(fault.empty() ? "not one frame of it can be found" : fault);
  }
  const auto shown_at = [](const PacketFacts& packet) {  // those without a time come last
    return packet.timestamp == AV_NOPTS_VALUE ? INT64_MAX : packet.timestamp;
  };
  std::ranges::stable_sort(packets_, {}, shown_at);
  for (const PacketFacts& packet : packets_) {
    times_.push_back(seconds_of(packet.timestamp, input.stream().time_base));
  }
  if (!fault.empty() && !accept_broken_tail_) {
    lost_tail_ = concat("clip '", path_.string(), "': ", fault, "; about ",
                        plural(times_.size(), "frame"), " before that may be readable");
    times_.push_back(std::numeric_limits<double>::quiet_NaN());
  }
  times_ = settle_times(std::move(times_));
  const AVRational rate = input.stream().avg_frame_rate;
  if (!std::isnan(times_.front()) || rate.num <= 0) return;
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
  guarded([&] { decoder.emplace(path_); });
  ClipConverter converter = decoder->converter();
  Image last;
  for (std::size_t i = 0; i < indices.size(); ++i) {
    guarded([&] {
      if (i < keys.size() && indices.size() > 1) decoder->go_to(packets_[keys[i]].timestamp);
      if ((keys.empty() || i < keys.size()) && decoder->next()) {
        last = converter.to_image(decoder->picture());
      }
      if (last.rgb.empty()) throw DataError("not one frame of it can be decoded");
    });
    sink(Frame{indices[i], time_s(indices[i]), last});
  }
}

}  // namespace

std::unique_ptr<Source> estimate_clip(const std::filesystem::path& path, bool accept_broken_tail) {
  return std::make_unique<ClipEstimate>(path, accept_broken_tail);
}

}  // namespace coldframe::frames
