#include "extract/frames/clip/packets.h"

#include <algorithm>
#include <new>

#include "common/cli/error.h"
#include "extract/frames/clip/container.h"
#include "extract/frames/clip/fields.h"

namespace coldframe::frames {
namespace {

void read_all(ClipInput& input, ClipPackets& packets) {
  const PacketPointer packet(av_packet_alloc());
  if (!packet) throw std::bad_alloc();
  FieldPairs fields(input.stream());
  const bool has_keys = !is_animation(*input.stream().codecpar);
  while (input.read(*packet)) {
    if (packet->flags & AV_PKT_FLAG_CORRUPT) packets.all_shown_when_told = false;
    if (packet->pts == AV_NOPTS_VALUE) packets.all_shown_when_told = false;
    if (packet->size == 0 || packet->flags & AV_PKT_FLAG_DISCARD) {
      packets.all_shown_when_told = false;
      continue;
    }
    if (fields.completes(*packet)) continue;
    const bool is_key = has_keys && packet->flags & AV_PKT_FLAG_KEY;
    packets.shown.push_back({packet->pts != AV_NOPTS_VALUE ? packet->pts : packet->dts, is_key});
  }
}

}  // namespace

ClipPackets read_packets(ClipInput& input) {
  ClipPackets packets;
  try {
    check_container(input.file());
  } catch (const DataError& error) {
    packets.fault = error.what();
  }
  try {
    read_all(input, packets);
  } catch (const DataError& error) {
    if (packets.fault.empty()) packets.fault = error.what();
  }
  const auto shown_at = [](const ClipPacket& packet) {
    return packet.timestamp == AV_NOPTS_VALUE ? INT64_MAX : packet.timestamp;
  };
  std::ranges::stable_sort(packets.shown, {}, shown_at);
  return packets;
}

}  // namespace coldframe::frames
