#include "extract/frames/clip/stream.h"

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/text/text.h"
#include "extract/frames/clip/decoder.h"
#include "extract/frames/clip/times.h"

namespace coldframe::frames {

struct ClipStream::State {
  State(const std::filesystem::path& clip, Carrier carrier) : path(clip), decoder(clip, carrier) {}

  std::filesystem::path path;
  ClipDecoder decoder;
  ClipConverter converter = decoder.converter();
  std::int64_t frames = 0;
  RunningTimes times;

  std::string name() const {
    return path == kStandardInput ? "the clip on the standard input"
                                  : concat("clip '", path.string(), "'");
  }
};

ClipStream::ClipStream(const std::filesystem::path& path) {
  try {
    const Carrier carrier = path == kStandardInput ? Carrier::kPipe : Carrier::kFile;
    state_ = std::make_unique<State>(path, carrier);
  } catch (const DataError& error) {
    throw DataError(concat(path == kStandardInput ? "the clip on the standard input"
                                                  : concat("clip '", path.string(), "'"),
                           ": ", error.what()));
  }
}

ClipStream::~ClipStream() = default;

std::optional<Frame> ClipStream::next() {
  State& state = *state_;
  try {
    if (!state.decoder.next()) return std::nullopt;
    Frame frame;
    frame.index = state.frames++;
    frame.time_s = state.times.next(state.decoder.time_s());
    frame.pixels = state.converter.to_image(state.decoder.picture());
    return frame;
  } catch (const DataError& error) {
    if (stop_requested()) return std::nullopt;  // which may cut a pipe within a frame
    throw DataError(concat(state.name(), ", frame ", state.frames, ": ", error.what()));
  }
}

}  // namespace coldframe::frames
