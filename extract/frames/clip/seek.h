// A part of a clip that can be decoded without all that lies before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "extract/frames/clip/decoder.h"
#include "extract/frames/source_file.h"

namespace coldframe::frames {

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

}  // namespace coldframe::frames
