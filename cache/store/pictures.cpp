#include "cache/store/pictures.h"

#include <algorithm>
#include <cmath>

#include "common/text/text.h"

namespace coldframe::cache {

namespace {

constexpr std::string_view kJpegStart = "\xff\xd8\xff";

}  // namespace

std::vector<std::size_t> middles_of_parts(std::size_t all, std::size_t most) {
  const std::size_t n = std::min(all, most);
  std::vector<std::size_t> places(n);
  for (std::size_t i = 0; i < n; ++i) places[i] = (2 * i + 1) * all / (2 * n);
  return places;
}

std::vector<html::Picture> Pictures::of(std::size_t exam, const std::vector<std::size_t>& frames) {
  if (!wanted()) return {};
  const std::vector<std::string> files = thumbnails_(exam);
  const ExamInfo& info = exam_(exam);
  if (files.size() != info.frames()) return {};
  std::vector<html::Picture> pictures;
  std::uint64_t bytes = 0;
  for (const std::size_t frame : frames) {
    const double time = info.time_s[frame];
    pictures.push_back(
        {files[frame].starts_with(kJpegStart) ? files[frame] : "",
         concat("frame ", frame, std::isfinite(time) ? concat(", ", fixed(time, 2), " s") : "")});
    bytes += pictures.back().file.size();
  }
  if (bytes == 0) return {};
  if (bytes > most_ - bytes_) {
    ++left_out_;
    return {};
  }
  bytes_ += bytes;
  return pictures;
}

std::vector<html::Picture> Pictures::of(std::size_t exam) {
  const std::vector<std::uint8_t>& present = exam_(exam).present;
  std::vector<std::size_t> frames, shown;
  for (std::size_t t = 0; t < present.size(); ++t)
    if (present[t] != 0) frames.push_back(t);
  for (const std::size_t place : middles_of_parts(frames.size(), kMaxFramesShown))
    shown.push_back(frames[place]);
  return of(exam, shown);
}

std::string Pictures::note(std::string_view first) const {
  if (bytes_ == 0 && left_out_ == 0) return "";
  return concat(
      "<p>The small pictures are the frames as the backbone saw them, after mask and crop, ",
      human_bytes(bytes_),
      " in all. They are part of this file: whoever gets it sees them. --without-thumbnails "
      "leaves them out.",
      left_out_ == 0 ? ""
                     : concat(" Some exams are shown without: at most ", human_bytes(most_),
                              " of pictures go into this page, ", first, " first."),
      "</p>\n");
}

}  // namespace coldframe::cache
