// NIfTI volumes as clips: a 3-D volume's slices, or for each time point of a 4-D one its slices.
#pragma once

#include <memory>
#include <string>

#include "extract/frames/reader_options.h"
#include "extract/frames/source.h"

namespace coldframe::frames {

// The same reader on a file's content; `name` is for messages. Pairs of .hdr and .img are refused.
std::unique_ptr<Source> open_nifti_bytes(std::string bytes, std::string name,
                                         const ReaderOptions& options);

}  // namespace coldframe::frames
