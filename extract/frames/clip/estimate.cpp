#include "extract/frames/clip/estimate.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/clip/decoder.h"
#include "extract/frames/clip/packets.h"
#include "extract/frames/clip/times.h"

namespace coldframe::frames {
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
  std::vector<ClipPacket> packets_;  // in the order of presentation
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

}  // namespace coldframe::frames
