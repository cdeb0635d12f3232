// Which page of a stack shows which channel, slice and time, as its first page describes it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe::frames {

struct StackFrame {
  std::int64_t page = 0;    // of the file, counted from 0; may lie behind the last one
  std::size_t channel = 0;  // index into StackAxes::channels
  double time_s = std::numeric_limits<double>::quiet_NaN();  // since the first frame
};

struct StackAxes {
  std::vector<StackFrame> frames;  // by time, within a time by slice, within a slice by channel
  std::vector<std::string> channels = {""};  // their names, which differ
};

// How many images ImageJ says that the file holds, 0 where the text is not ImageJ's. It writes
// stacks of more than 4 GB behind one directory.
std::int64_t imagej_images(std::string_view description);

// True where the text states several channels; cheap.
bool names_channels(std::string_view description);

// `description`: the tag ImageDescription of the first page, of ImageJ, OME-XML or tifffile;
// `pages`: how many there are, reductions and masks among them; `samples`: of a pixel; `is_cut`:
// more pages cannot be read. Empty where the text says nothing of axes. DataError, without the
// file's name: a description of channels that does not fit the pages, of several images, or that
// lies elsewhere. Sources: "ImageJ TIFF" in ImageJ's TiffEncoder and
// FileSaver.getDescriptionString; the OME data model 2016-06, elements Pixels, Channel, TiffData
// and Plane.
std::optional<StackAxes> read_axes(std::string_view description, std::int64_t pages, int samples,
                                   bool is_cut);

}  // namespace coldframe::frames
