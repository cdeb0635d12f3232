// Which frames of a clip are whole where some of its data is damaged.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace coldframe::frames {

// Of a packet, or of both where two hold a frame's fields; in the order of decoding.
struct PacketFacts {
  std::int64_t timestamp = 0;  // of presentation, in the stream's units; AV_NOPTS_VALUE: unknown
  bool is_key = false;         // frames from here on need none before it
  bool is_damaged = false;     // as the container says, or the decoder, which refused it
};

// A frame that the decoder handed over, in the order of presentation.
struct DecodedFacts {
  std::int64_t packet = -1;  // that it comes from; −1: unknown
  std::int64_t timestamp = 0;
  bool is_damaged = false;  // the decoder made pixels up
  bool is_intra = false;    // it refers to no other frame
};

struct ClipSlot {
  std::int64_t decoded = -1;  // the frame's place among those that come out; −1: it is lost
  std::int64_t timestamp = 0;
};

// The clip's frames in the order of presentation. Lost are those from a damaged packet on, in the
// order of decoding, up to the next key frame that is whole, and those shown before that one which
// are decoded after it (open groups of pictures). Where each frame stands alone (`intra_only`),
// the damaged one alone is lost. What lies before the first key frame, as in a broadcast that was
// joined late, is none of the clip's.
std::vector<ClipSlot> slots_of(std::span<const PacketFacts> packets,
                               std::span<const DecodedFacts> decoded, bool intra_only);

}  // namespace coldframe::frames
