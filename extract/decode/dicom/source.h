// Reads frames from DICOM files. DCMTK parses them and decodes JPEG, JPEG-LS and RLE; OpenJPEG
// decodes JPEG 2000; all processing of stored values is our own, after PS3.3.
//  Grey frames: modality transformation, then --window, else the file's VOI table or window, else
// (more than 8 bits, or signed) the exam's min to max; MONOCHROME1 inverted. Colour frames have no
// window. Overlays are ignored.
#pragma once

#include <array>
#include <optional>

#include "extract/decode/dicom/data_set.h"
#include "extract/decode/frame.h"
#include "extract/decode/source.h"

namespace coldframe::frames::dicom {

// Reads patient, time, study, view, modality and spacing from the header.
SourceFacts read_facts(const DataSet& data, const ReaderOptions& options);

struct Geometry {
  std::array<double, 2> spacing_mm{kNotStated, kNotStated};  // row to row, column to column
  std::optional<Rect> region;
  // ImagePositionPatient and ImageOrientationPatient: 3 and 6 numbers; empty where not stated.
  std::vector<double> position, orientation;
};
// PixelSpacing (its own for each enhanced frame), ImagerPixelSpacing, or the ultrasound regions'
// calibration (PS3.3 C.8.5.5); `region` is the union of the two-dimensional ultrasound regions.
Geometry read_geometry(const DataSet& data, const FunctionalGroups& groups, std::int64_t frame);

}  // namespace coldframe::frames::dicom
