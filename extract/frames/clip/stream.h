// The frames of a clip one after another, as they come, from a file or a pipe: in memory that does
// not grow with their number.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "extract/frames/frame.h"

namespace coldframe::frames {

class ClipStream {
 public:
  // `path`: a clip, or "-" for the standard input, on which a container that is read from front to
  // back is expected: YUV4MPEG2, Matroska, MPEG transport or program stream, AVI, Ogg, FLV, GIF, or
  // MP4 whose index comes first or in fragments. DataError.
  explicit ClipStream(const std::filesystem::path& path);
  ~ClipStream();

  // Empty at the end, or where a stop is asked for. `time_s` is as RunningTimes has it. DataError
  // for a frame that does not decode; nothing can be read behind it.
  std::optional<Frame> next();

 private:
  struct State;
  std::string name_;
  std::unique_ptr<State> state_;
};

}  // namespace coldframe::frames
