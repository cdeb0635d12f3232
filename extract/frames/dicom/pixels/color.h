// Colour frames to 8-bit RGB (PS3.3 C.7.6.3.1.2).
#pragma once

#include <array>

#include "extract/frames/dicom/pixels/frame_data.h"
#include "extract/frames/dicom/pixels/lookup_table.h"
#include "extract/frames/frame.h"

namespace coldframe::frames::dicom {

using Palette = std::array<LookupTable, 3>;
Palette read_palettes(const DataSet& data, const PixelLayout& layout);

// Takes RGB, YBR_FULL and YBR_PARTIAL, with chroma of each pixel or pair; deeper samples keep their
// leading 8 bits' share of the range.
Image color_image(const RawFrame& raw);
Image palette_image(const RawFrame& raw, const Palette& palette);

}  // namespace coldframe::frames::dicom
