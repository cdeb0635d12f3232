// A clip's packets tell of its frames without any of them being decoded.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "extract/frames/clip/input.h"

namespace coldframe::frames {

struct ClipPacket {  // of a frame; of both, where two packets hold its fields
  std::int64_t timestamp = AV_NOPTS_VALUE;  // in the stream's units
  bool is_key = false;
};

struct ClipPackets {
  std::vector<ClipPacket> shown;  // in the order of presentation; those without a time come last
  std::string fault;              // what is wrong with the container; "" where nothing is
  bool all_shown_when_told =
      true;  // no packet is empty, damaged, not to be shown, or tells no time
};

// Reads all of a clip that is a file.
ClipPackets read_packets(ClipInput& input);

}  // namespace coldframe::frames
