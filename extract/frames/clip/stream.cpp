#include "extract/frames/clip/stream.h"

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/cli/interrupt.h"
#include "common/files/file.h"
#include "common/text/text.h"
#include "extract/frames/clip/decoder.h"
#include "extract/frames/clip/times.h"

namespace coldframe::frames {

namespace {

std::shared_ptr<const ByteSource> open_clip(const std::filesystem::path& path) {
  if (path == kStandardInput) return nullptr;
  return std::make_shared<InputFile>(path, refuse_unnamed);
}

}  // namespace

struct ClipStream::State {
  explicit State(const std::filesystem::path& path) : decoder(open_clip(path)) {}

  ClipDecoder decoder;
  ClipConverter converter = decoder.converter();
  std::int64_t frames = 0;
  RunningTimes times;
};

ClipStream::ClipStream(const std::filesystem::path& path)
    : name_(path == kStandardInput ? "the clip on the standard input"
                                   : concat("clip '", path.string(), "'")),
      state_(in_context(name_, [&] { return std::make_unique<State>(path); })) {}

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
    throw DataError(concat(name_, ", frame ", state.frames, ": ", error.what()));
  }
}

}  // namespace coldframe::frames
