#include "extract/frames/input/channels.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

std::vector<ChannelFrame> frames_of(const ExamItem& item, const ReaderOptions& options) {
  try {
    const SourceFile file(item.path);
    const auto held = file.hold();
    const SourceKind* kind = detect_kind(file);
    return kind == nullptr || kind->facts == nullptr ? std::vector<ChannelFrame>()
                                                     : kind->facts(file, options).frames;
  } catch (const DataError&) {  // opening it with its exam says why
    return {};
  }
}

bool is_whole(const ExamItem& item) {
  return !item.path.empty() && item.first == 0 && item.last < 0;
}

std::string names_of(const std::vector<ChannelFrame>& frames) {
  std::vector<std::string> names;
  for (const ChannelFrame& frame : frames)
    if (std::ranges::find(names, frame.stream) == names.end()) names.push_back(frame.stream);
  return concat("'", join(names, "', '"), "'");
}

}  // namespace

void ChannelStreams::part(ExamSpec& exam, std::vector<ChannelFrame> frames) {
  std::vector<ExamItem> parted;
  bool is_first = true;
  if (exam.items.size() == 1) {  // else the input orders files
    exam.basis.order = kFileOrder;
    if (std::isnan(exam.items.front().time_s)) exam.basis.times = kFileOrder;
  }
  for (ExamItem& item : exam.items) {
    if (!is_whole(item)) {
      parted.push_back(std::move(item));
      continue;
    }
    if (!std::exchange(is_first, false)) frames = frames_of(item, options_.reader);
    if (frames.empty()) {
      parted.push_back(std::move(item));
      continue;
    }
    const std::string found = concat("'", item.name, "' holds the channels ", names_of(frames));
    if (!item.stream.empty())
      throw DataError(concat("exam '", exam.id, "': ", found, ", and its row names one stream, '",
                             item.stream,
                             "'; leave that empty, or say in the column 'frame' which "
                             "frames are of this stream"));
    if (files_++ == 0) first_ = found;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      ExamItem frame = item;
      frame.first = frame.last = static_cast<std::int64_t>(i);
      frame.time_s += frames[i].time_s - frames[0].time_s;
      if (i == 0) frame.time_s = item.time_s;
      frame.stream = frames[i].stream;
      parted.push_back(std::move(frame));
    }
  }
  exam.items = std::move(parted);
}

void ChannelStreams::finish(ExamList& list) const {
  const std::string name = channel_column(options_);
  auto found = std::ranges::find(list.frame_columns, name);
  const bool is_asked =
      std::ranges::find(options_.frame_columns, name) != options_.frame_columns.end();
  if (files_ == 0 && (!is_asked || found != list.frame_columns.end())) return;
  if (found == list.frame_columns.end()) {
    for (ExamSpec& exam : list.exams) {
      for (const auto& column : exam.columns)
        if (column.first == name)
          throw DataError(concat("exam '", exam.id, "' has a column '", name, "', and ", first_,
                                 ", which become streams of that name; name it in "
                                 "--frame-columns, or call it otherwise"));
      for (ExamItem& item : exam.items) item.frame_columns.emplace_back();
    }
    found = list.frame_columns.insert(found, name);
  }
  const auto at = static_cast<std::size_t>(found - list.frame_columns.begin());
  if (files_ == 0) return;
  for (ExamSpec& exam : list.exams) {
    for (ExamItem& item : exam.items) {
      if (!item.stream.empty()) item.frame_columns[at] = item.stream;
      if (options_.streams == kNoStreams) item.stream.clear();
    }
  }
  if (options_.streams != kNoStreams) list.streams = name;
  list.warnings.push_back(concat(first_,
                                 files_ > 1 ? concat(", and so do ", files_ - 1, " more") : "",
                                 "; they are streams, which the frame column '", name,
                                 "' names: train --streams ", name, " reads them side by side"));
}

std::string channel_column(const ExamListOptions& options) {
  return options.streams.empty() || options.streams == kNoStreams ? "stream" : options.streams;
}

}  // namespace coldframe::frames
