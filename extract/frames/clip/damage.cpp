#include "extract/frames/clip/damage.h"

#include <algorithm>

#include "extract/frames/clip/ffmpeg.h"

namespace coldframe::frames {
namespace {

class DamageFinder {
 public:
  DamageFinder(std::span<const PacketFacts> packets, std::span<const DecodedFacts> decoded)
      : packets_(packets),
        decoded_(decoded),
        frame_of_(packets.size(), -1),
        lost_(packets.size(), false),
        packet_of_(decoded.size(), 0) {
    std::size_t before = 0;
    for (std::size_t i = 0; i < decoded.size(); ++i) {
      const auto packet = static_cast<std::size_t>(decoded[i].packet);
      if (packet < packets.size()) {
        before = packet;
        frame_of_[packet] = static_cast<std::int64_t>(i);
      }
      packet_of_[i] = before;
    }
  }

  void spread(bool intra_only) {
    for (std::size_t p = 0; p < packets_.size();) {
      if (!is_damaged(p)) {
        ++p;
        continue;
      }
      std::size_t end = p + 1;
      while (!intra_only && end < packets_.size() && !begins_anew(end)) ++end;
      std::fill(lost_.begin() + static_cast<std::ptrdiff_t>(p),
                lost_.begin() + static_cast<std::ptrdiff_t>(end), true);
      if (!intra_only && end < packets_.size()) lose_shown_before(end);
      p = end;
    }
  }

  std::vector<ClipSlot> slots() const {
    const auto first_key = static_cast<std::size_t>(
        std::ranges::find_if(packets_, &PacketFacts::is_key) - packets_.begin());
    const std::size_t begin = first_key == packets_.size() ? 0 : first_key;
    std::vector<ClipSlot> slots;
    std::vector<std::size_t> from;  // the packet of each slot
    for (std::size_t i = 0; i < decoded_.size(); ++i) {
      const bool is_lost = decoded_[i].is_damaged || (!packets_.empty() && lost_[packet_of_[i]]);
      if (is_lost && packet_of_[i] < begin) continue;
      slots.push_back({is_lost ? -1 : static_cast<std::int64_t>(i), decoded_[i].timestamp});
      from.push_back(packet_of_[i]);
    }
    for (std::size_t p = begin; p < packets_.size(); ++p)
      if (lost_[p] && frame_of_[p] < 0) insert(p, slots, from);
    return slots;
  }

 private:
  bool is_damaged(std::size_t packet) const {
    const std::int64_t frame = frame_of_[packet];
    return packets_[packet].is_damaged ||
           (frame >= 0 && decoded_[static_cast<std::size_t>(frame)].is_damaged);
  }
  bool begins_anew(std::size_t packet) const {
    const std::int64_t frame = frame_of_[packet];
    return packets_[packet].is_key && !is_damaged(packet) && frame >= 0 &&
           decoded_[static_cast<std::size_t>(frame)].is_intra;
  }

  void lose_shown_before(std::size_t key) {
    for (std::size_t p = key + 1; p < packets_.size() && !packets_[p].is_key; ++p) {
      const bool is_before = frame_of_[p] >= 0 ? frame_of_[p] < frame_of_[key]
                                               : packets_[p].timestamp < packets_[key].timestamp;
      if (is_before) lost_[p] = true;
    }
  }

  // A lost frame that did not come out: where its time lies, or, in a stream without times, before
  // what was coded after it. One of another frame's time is a packet that shows nothing.
  void insert(std::size_t packet, std::vector<ClipSlot>& slots,
              std::vector<std::size_t>& from) const {
    const std::int64_t timestamp = packets_[packet].timestamp;
    const auto untimed = [](const ClipSlot& slot) { return slot.timestamp == AV_NOPTS_VALUE; };
    std::size_t at = 0;
    if (timestamp == AV_NOPTS_VALUE || std::ranges::any_of(slots, untimed)) {
      while (at < slots.size() && from[at] < packet) ++at;
    } else {
      while (at < slots.size() && slots[at].timestamp < timestamp) ++at;
      if (at < slots.size() && slots[at].timestamp == timestamp) return;
    }
    slots.insert(slots.begin() + static_cast<std::ptrdiff_t>(at), {-1, timestamp});
    from.insert(from.begin() + static_cast<std::ptrdiff_t>(at), packet);
  }

  std::span<const PacketFacts> packets_;
  std::span<const DecodedFacts> decoded_;
  std::vector<std::int64_t> frame_of_;  // of each packet; −1: none came out
  std::vector<bool> lost_;              // packets
  std::vector<std::size_t> packet_of_;  // of each frame
};

bool rise(std::span<const ClipSlot> slots) {
  for (std::size_t i = 0; i < slots.size(); ++i)
    if (slots[i].timestamp == AV_NOPTS_VALUE ||
        (i > 0 && slots[i].timestamp <= slots[i - 1].timestamp))
      return false;
  return true;
}

// Damage spoils time stamps, too. Where those of lost frames do not rise from the whole frame
// before to the one behind, they are spread evenly between these, as many as there is room for;
// without a frame on either side they are unknown.
void spread_between(const ClipSlot& before, const ClipSlot& behind, std::vector<ClipSlot>& lost) {
  if (before.timestamp == AV_NOPTS_VALUE || behind.timestamp == AV_NOPTS_VALUE) return;
  const std::int64_t gap = behind.timestamp - before.timestamp;
  lost.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(gap - 1, 0, std::ssize(lost))));
  for (std::size_t i = 0; i < lost.size(); ++i)
    lost[i].timestamp =
        before.timestamp + av_rescale(gap, static_cast<std::int64_t>(i) + 1, std::ssize(lost) + 1);
}

std::vector<ClipSlot> with_rising_times(const std::vector<ClipSlot>& slots) {
  std::vector<ClipSlot> result;
  for (std::size_t begin = 0; begin < slots.size();) {
    if (slots[begin].decoded >= 0) {
      result.push_back(slots[begin++]);
      continue;
    }
    std::size_t end = begin;
    while (end < slots.size() && slots[end].decoded < 0) ++end;
    const std::size_t first = begin - (begin > 0 ? 1 : 0), last = std::min(end + 1, slots.size());
    std::vector<ClipSlot> lost(slots.begin() + static_cast<std::ptrdiff_t>(begin),
                               slots.begin() + static_cast<std::ptrdiff_t>(end));
    if (!rise(std::span(slots).subspan(first, last - first))) {
      if (begin > 0 && end < slots.size())
        spread_between(slots[first], slots[last - 1], lost);
      else
        for (ClipSlot& slot : lost) slot.timestamp = AV_NOPTS_VALUE;
    }
    result.insert(result.end(), lost.begin(), lost.end());
    begin = end;
  }
  return result;
}

}  // namespace

std::vector<ClipSlot> slots_of(std::span<const PacketFacts> packets,
                               std::span<const DecodedFacts> decoded, bool intra_only) {
  DamageFinder damage(packets, decoded);
  damage.spread(intra_only);
  return with_rising_times(damage.slots());
}

}  // namespace coldframe::frames
