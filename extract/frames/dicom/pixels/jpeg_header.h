// Reads what a JPEG or JPEG-LS code stream says of itself before it is decoded (ISO/IEC 10918-1
// B.2.2).
#pragma once

#include <string_view>

namespace coldframe::frames::dicom {

struct JpegHeader {
  int rows = 0, columns = 0, components = 0, precision = 0;
  bool rgb_components = false;  // its components are called R, G, B
  bool jfif = false;            // hence YCbCr
};

// DataError when there is no frame header.
JpegHeader read_jpeg_header(std::string_view code);

}  // namespace coldframe::frames::dicom
