#include "extract/frames/dicom/pixels/pixel_layout.h"

#include <array>
#include <cmath>
#include <limits>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/frame.h"

namespace coldframe::frames::dicom {
namespace {

struct NonImage {
  std::string_view uid_prefix, name;
};
constexpr std::array kNonImages{
    NonImage{"1.2.840.10008.1.3.10", "a DICOMDIR, the index of a medium"},
    NonImage{"1.2.840.10008.5.1.4.1.1.88.", "a structured report"},
    NonImage{"1.2.840.10008.5.1.4.1.1.104.1", "an encapsulated PDF"},
    NonImage{"1.2.840.10008.5.1.4.1.1.104.2", "an encapsulated CDA document"},
    NonImage{"1.2.840.10008.5.1.4.1.1.104.", "an encapsulated model"},
    NonImage{"1.2.840.10008.5.1.4.1.1.481.", "a radiotherapy object without an image"},
    NonImage{"1.2.840.10008.5.1.4.1.1.11.", "a presentation state"},
    NonImage{"1.2.840.10008.5.1.4.1.1.9.", "a waveform"},
    NonImage{"1.2.840.10008.5.1.4.1.1.66", "raw data, a registration or a segmentation"},
};

// Photometric interpretations whose samples come out of the decoder as RGB count as RGB.
Photometric read_photometric(const DataSet& data, Coding coding) {
  const std::string name = text_of(data.root(), DCM_PhotometricInterpretation);
  if (name == "MONOCHROME1") return Photometric::kMonochrome1;
  if (name == "MONOCHROME2") return Photometric::kMonochrome2;
  if (name == "PALETTE COLOR") return Photometric::kPalette;
  if (name == "RGB") return Photometric::kRgb;
  if (name == "YBR_FULL") return Photometric::kYbrFull;
  if (name == "YBR_FULL_422") {
    return coding == Coding::kNative ? Photometric::kYbrFull422 : Photometric::kYbrFull;
  }
  if ((name == "YBR_ICT" || name == "YBR_RCT") && coding == Coding::kJpeg2000) {
    return Photometric::kRgb;
  }
  throw DataError(concat("its photometric interpretation is '", name,
                         "'; MONOCHROME1, MONOCHROME2, PALETTE COLOR, RGB, YBR_FULL, "
                         "YBR_FULL_422, and YBR_ICT and YBR_RCT in JPEG 2000 can be read"));
}

std::int64_t whole_number(DcmItem& root, const DcmTagKey& tag, const char* name, double otherwise,
                          double least, double greatest) {
  const double value = number_of(root, tag, otherwise);
  if (!(value >= least && value <= greatest) || value != std::floor(value)) {
    throw DataError(std::isnan(value) ? concat("its header states no ", name)
                                      : concat("its ", name, " is ", value, "; ", least, " to ",
                                               greatest, " is possible"));
  }
  return static_cast<std::int64_t>(value);
}

void read_bits(DcmItem& root, PixelLayout& layout) {
  constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
  if (layout.kind != PixelElement::Kind::kInteger) {
    layout.bits_allocated = layout.kind == PixelElement::Kind::kFloat ? 32 : 64;
    return;
  }
  const auto number = [&](const DcmTagKey& tag, const char* name, double otherwise, double least,
                          double greatest) {
    return static_cast<int>(whole_number(root, tag, name, otherwise, least, greatest));
  };
  const int allocated = number(DCM_BitsAllocated, "bits allocated", kAbsent, 1, 32);
  if (allocated != 1 && allocated != 8 && allocated != 16 && allocated != 32) {
    throw DataError(concat("its bits allocated are ", allocated, "; 1, 8, 16 or 32 can be read"));
  }
  layout.bits_allocated = allocated;
  layout.bits_stored = number(DCM_BitsStored, "bits stored", allocated, 1, allocated);
  layout.high_bit = number(DCM_HighBit, "high bit", layout.bits_stored - 1, 0, allocated - 1);
  if (layout.high_bit + 1 < layout.bits_stored) {
    throw DataError(concat("its high bit is ", layout.high_bit, ", which leaves no room for ",
                           layout.bits_stored, " bits stored"));
  }
  layout.is_signed = number(DCM_PixelRepresentation, "pixel representation", 0, 0, 1) == 1;
}

void require_known_shape(const PixelLayout& layout) {
  const bool color = layout.photometric == Photometric::kRgb ||
                     layout.photometric == Photometric::kYbrFull ||
                     layout.photometric == Photometric::kYbrFull422;
  if (layout.samples != (color ? 3 : 1)) {
    throw DataError(concat("it has ", layout.samples, " samples per pixel, which does not go with ",
                           "its photometric interpretation"));
  }
  if (layout.pixels() > static_cast<std::uint64_t>(kMaxPixels)) {
    throw DataError(concat("its frames have ", layout.columns, "×", layout.rows,
                           " pixels; at most ", kMaxPixels, " can be read"));
  }
  const bool ybr = color && layout.photometric != Photometric::kRgb;
  if ((ybr && layout.bits_allocated != 8) || (color && layout.is_signed) ||
      (color && layout.bits_allocated == 1) ||
      (layout.photometric == Photometric::kYbrFull422 && layout.columns % 2 != 0)) {
    throw DataError(concat("its colours have ", layout.bits_allocated, " bits allocated",
                           layout.is_signed ? ", signed" : "", ", and ", layout.columns,
                           " columns, which its photometric interpretation does not allow"));
  }
  if (layout.kind != PixelElement::Kind::kInteger &&
      layout.photometric != Photometric::kMonochrome1 &&
      layout.photometric != Photometric::kMonochrome2) {
    throw DataError("its float pixel data is in colour, which the standard does not have");
  }
}

}  // namespace

std::string describe_without_image(const DataSet& data) {
  std::string uid = text_of(data.root(), DCM_SOPClassUID);
  if (uid.empty() && item_count(data.root(), DCM_DirectoryRecordSequence) > 0) {
    uid = "1.2.840.10008.1.3.10";
  }
  for (const NonImage& each : kNonImages) {
    if (uid.starts_with(each.uid_prefix)) return std::string(each.name);
  }
  return concat("a DICOM object without pixel data (SOP class ", uid.empty() ? "not stated" : uid,
                ")");
}

PixelLayout read_layout(const DataSet& data) {
  constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
  if (data.pixels().kind == PixelElement::Kind::kNone || data.pixels().length == 0) {
    throw DataError(concat("it holds no image: it is ", describe_without_image(data)));
  }
  DcmItem& root = data.root();
  PixelLayout layout;
  layout.kind = data.pixels().kind;
  layout.rows = static_cast<int>(whole_number(root, DCM_Rows, "rows", kAbsent, 1, 65535));
  layout.columns = static_cast<int>(whole_number(root, DCM_Columns, "columns", kAbsent, 1, 65535));
  layout.samples =
      static_cast<int>(whole_number(root, DCM_SamplesPerPixel, "samples per pixel", 1, 1, 65535));
  layout.frames = whole_number(root, DCM_NumberOfFrames, "number of frames", 1, 1, 1e7);
  layout.planar = number_of(root, DCM_PlanarConfiguration, 0) == 1;
  layout.photometric = read_photometric(data, data.syntax().coding);
  read_bits(root, layout);
  require_known_shape(layout);
  return layout;
}

}  // namespace coldframe::frames::dicom
