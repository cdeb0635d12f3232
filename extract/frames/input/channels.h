// Files whose pages show several channels: each channel is a stream.
#pragma once

#include <string>
#include <vector>

#include "extract/frames/input/exam_list.h"
#include "extract/frames/source.h"

namespace coldframe::frames {

class ChannelStreams {
 public:
  explicit ChannelStreams(const ExamListOptions& options) : options_(options) {}

  // Gives every frame of such files an item of its own. `frames`: SourceFacts::frames of the exam's
  // first file, which are not empty.
  void part(ExamSpec& exam, std::vector<ChannelFrame> frames);
  // Writes the streams to a frame column, and tells of it. DataError: an item that names a stream
  // already, or an exam's column of that name.
  void finish(ExamList& list) const;

 private:
  const ExamListOptions& options_;
  std::size_t files_ = 0;  // that were parted
  std::string first_;      // of these, in words
};

// The frame column that streams of channels are written to.
std::string channel_column(const ExamListOptions& options);

}  // namespace coldframe::frames
