// Reads what a DICOM header says of the exam, and where and how large its image is.
#include <algorithm>
#include <cmath>

#include "common/text/spelling.h"
#include "common/text/text.h"
#include "extract/frames/dicom/pixels/frame_data.h"
#include "extract/frames/dicom/source.h"
#include "extract/frames/dicom/times.h"
#include "extract/frames/input/identity.h"

namespace coldframe::frames::dicom {
namespace {

constexpr double kTwoDimensional = 1;  // region spatial format
constexpr double kCentimetres = 3;     // physical units

using Spacing = std::array<double, 2>;

bool is_known(const Spacing& spacing) {
  return spacing[0] > 0 && spacing[1] > 0;  // not NaN
}

Spacing spacing_of(DcmItem& item, const DcmTagKey& tag) {
  const auto numbers = numbers_of(item, tag);
  if (numbers.size() != 2) return {kUnknownSpacing, kUnknownSpacing};
  return {numbers[0], numbers[1]};
}

void add_region(DcmItem& item, double columns, double rows, Geometry& geometry) {
  if (number_of(item, DCM_RegionSpatialFormat, 0) != kTwoDimensional) return;
  const double x0 = number_of(item, DCM_RegionLocationMinX0, -1),
               y0 = number_of(item, DCM_RegionLocationMinY0, -1),
               x1 = std::min(number_of(item, DCM_RegionLocationMaxX1, -1), columns - 1),
               y1 = std::min(number_of(item, DCM_RegionLocationMaxY1, -1), rows - 1);
  if (!(x0 >= 0 && y0 >= 0 && x1 >= x0 && y1 >= y0)) return;
  Rect rect{static_cast<int>(x0), static_cast<int>(y0), static_cast<int>(x1 - x0) + 1,
            static_cast<int>(y1 - y0) + 1};
  if (geometry.region) {
    const Rect& other = *geometry.region;
    const int right = std::max(rect.x + rect.width, other.x + other.width);
    const int bottom = std::max(rect.y + rect.height, other.y + other.height);
    rect.x = std::min(rect.x, other.x);
    rect.y = std::min(rect.y, other.y);
    rect.width = right - rect.x;
    rect.height = bottom - rect.y;
  }
  geometry.region = rect;
  const Spacing spacing{10 * std::abs(number_of(item, DCM_PhysicalDeltaY, 0)),
                        10 * std::abs(number_of(item, DCM_PhysicalDeltaX, 0))};
  if (!is_known(geometry.spacing_mm) && is_known(spacing) &&
      number_of(item, DCM_PhysicalUnitsXDirection, 0) == kCentimetres &&
      number_of(item, DCM_PhysicalUnitsYDirection, 0) == kCentimetres) {
    geometry.spacing_mm = spacing;
  }
}

}  // namespace

Geometry read_geometry(const DataSet& data, const FunctionalGroups& groups, std::int64_t frame) {
  DcmItem& root = data.root();
  Geometry geometry;
  if (DcmItem* measures = groups.find(frame, DCM_PixelMeasuresSequence)) {
    geometry.spacing_mm = spacing_of(*measures, DCM_PixelSpacing);
  }
  for (const DcmTagKey& tag : {DCM_PixelSpacing, DCM_ImagerPixelSpacing}) {
    if (!is_known(geometry.spacing_mm)) geometry.spacing_mm = spacing_of(root, tag);
  }
  const double columns = number_of(root, DCM_Columns, 0), rows = number_of(root, DCM_Rows, 0);
  const unsigned long regions = item_count(root, DCM_SequenceOfUltrasoundRegions);
  for (unsigned long i = 0; i < std::min(regions, 64ul); ++i) {
    add_region(*item_of(root, DCM_SequenceOfUltrasoundRegions, i), columns, rows, geometry);
  }
  if (!is_known(geometry.spacing_mm)) geometry.spacing_mm = {kUnknownSpacing, kUnknownSpacing};
  return geometry;
}

SourceFacts read_facts(const DataSet& data, const ReaderOptions& options) {
  DcmItem& root = data.root();
  SourceFacts facts;
  facts.patient = text_of(root, DCM_PatientID);
  facts.start_time = start_time(root);
  facts.basis = frame_times(data, held_frames(data)).basis;
  const auto add = [&](const char* name, std::string value) {
    if (!value.empty()) facts.columns.emplace_back(name, std::move(value));
  };
  add("study", stored_identity(text_of(root, DCM_StudyInstanceUID), options));
  const std::string view = text_of(root, DCM_ViewPosition);
  const double primary = number_of(root, DCM_PositionerPrimaryAngle, std::nan("")),
               secondary = number_of(root, DCM_PositionerSecondaryAngle, std::nan(""));
  if (!view.empty()) {
    add("view", as_utf8(view));
  } else if (!std::isnan(primary) && !std::isnan(secondary)) {
    // PS3.3 C.8.7.5: positive towards the left and the head of the patient.
    add("view", concat(primary < 0 ? "RAO" : "LAO", fixed(std::abs(primary), 0), "/",
                       secondary < 0 ? "CAU" : "CRA", fixed(std::abs(secondary), 0)));
  }
  add("modality", as_utf8(text_of(root, DCM_Modality)));
  const Geometry geometry = read_geometry(data, FunctionalGroups(root), 0);
  if (is_known(geometry.spacing_mm)) {
    add("pixel_spacing", concat(exact(geometry.spacing_mm[0]), " ", exact(geometry.spacing_mm[1])));
  }
  return facts;
}

}  // namespace coldframe::frames::dicom
