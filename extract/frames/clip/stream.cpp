#include "extract/frames/clip/stream.h"

#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/clip/decoder.h"

namespace coldframe::frames {

struct ClipStream::State {
  State(const std::filesystem::path& clip, Carrier carrier) : path(clip), decoder(clip, carrier) {}

  std::filesystem::path path;
  ClipDecoder decoder;
  ClipConverter converter = decoder.converter();
  std::int64_t frames = 0;
  double first = 0, last = -std::numeric_limits<double>::infinity();

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
    const double time = state.decoder.time_s();
    if (state.frames == 0) state.first = time;
    Frame frame;
    frame.index = state.frames++;
    if (time > state.last) {  // not so for NaN
      frame.time_s = time - state.first;
      state.last = time;
    }
    frame.pixels = state.converter.to_image(state.decoder.picture());
    return frame;
  } catch (const DataError& error) {
    throw DataError(concat(state.name(), ", frame ", state.frames, ": ", error.what()));
  }
}

}  // namespace coldframe::frames
