#include "extract/frames/clip/seek.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "extract/frames/clip/packets.h"
#include "extract/frames/clip/times.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
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

// Frames that are shown before the key frame and stored behind it need what lies before.
bool go_to_key(ClipDecoder& decoder, const ClipPart& part) {
  const std::int64_t key = part.timestamps[static_cast<std::size_t>(part.key)];
  if (part.key > 0 && !decoder.go_to(key)) return false;
  while (decoder.next())
    if (decoder.picture().best_effort_timestamp >= key) return true;
  return false;
}

}  // namespace coldframe::frames
