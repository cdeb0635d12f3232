#include "extract/frames/dicom/pixels/pixel_layout.h"

#include <array>
#include <cmath>
#include <limits>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/frame.h"

namespace coldframe::frames::dicom {
namespace {

struct Named {
  std::string_view key, name;
};

// Storage classes of other things than images (PS3.4 B.5), without "1.2.840.10008.5.1.4.1.1."
// before them; a dot at the end stands for all below.
constexpr std::string_view kStorage = "1.2.840.10008.5.1.4.1.1.";
constexpr std::array kOtherClasses{
    Named{"66.4", "a segmentation"},
    Named{"66.5", "a surface segmentation"},
    Named{"66.6", "a set of tracks"},
    Named{"66.7", "a segmentation"},
    Named{"66.8", "a segmentation"},
    Named{"66", "raw data"},
    Named{"66.", "a registration"},
    Named{"481.2", "a dose grid"},
    Named{"481.3", "a set of structures"},
    Named{"88.", "a structured report"},
    Named{"104.1", "an encapsulated PDF"},
    Named{"104.2", "an encapsulated CDA document"},
    Named{"104.", "an encapsulated model"},
    Named{"11.", "a presentation state"},
    Named{"9.", "a waveform"},
};
constexpr std::array kOtherModalities{
    Named{"SEG", "a segmentation"},           Named{"RTDOSE", "a dose grid"},
    Named{"RTSTRUCT", "a set of structures"}, Named{"RTPLAN", "a radiotherapy plan"},
    Named{"SR", "a structured report"},       Named{"PR", "a presentation state"},
    Named{"KO", "a selection of objects"},    Named{"DOC", "a document"},
    Named{"REG", "a registration"},
};

bool is_class(std::string_view uid, std::string_view key) {
  if (!uid.starts_with(kStorage)) return false;
  uid.remove_prefix(kStorage.size());
  return key.ends_with('.') ? uid.starts_with(key) : uid == key;
}

// Photometric interpretations whose samples come out of the decoder as RGB count as RGB.
Photometric read_photometric(const DataSet& data, Coding coding) {
  const std::string name = text_of(data.root(), DCM_PhotometricInterpretation);
  if (name == "MONOCHROME1") return Photometric::kMonochrome1;
  if (name == "MONOCHROME2") return Photometric::kMonochrome2;
  if (name == "PALETTE COLOR") return Photometric::kPalette;
  if (name == "RGB") return Photometric::kRgb;
  if (name == "YBR_FULL" || name == "YBR_FULL_422") return Photometric::kYbrFull;
  if (name == "YBR_PARTIAL_422" || name == "YBR_PARTIAL_420") return Photometric::kYbrPartial;
  if ((name == "YBR_ICT" || name == "YBR_RCT") && coding == Coding::kJpeg2000) {
    return Photometric::kRgb;
  }
  throw DataError(concat("its photometric interpretation is '", name,
                         "'; MONOCHROME1, MONOCHROME2, PALETTE COLOR, RGB, YBR_FULL, "
                         "YBR_FULL_422, YBR_PARTIAL_422, YBR_PARTIAL_420, and YBR_ICT and YBR_RCT "
                         "in JPEG 2000 can be read"));
}

// Decoders give every pixel a chroma sample of its own.
Chroma read_chroma(const DataSet& data) {
  if (data.syntax().coding != Coding::kNative) return Chroma::kOwn;
  const std::string name = text_of(data.root(), DCM_PhotometricInterpretation);
  if (name.ends_with("_420")) return Chroma::kSquares;
  return name.ends_with("_422") ? Chroma::kPairs : Chroma::kOwn;
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
  const bool color = !layout.is_grey() && layout.photometric != Photometric::kPalette;
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
      (color && layout.bits_allocated == 1)) {
    throw DataError(concat("its colours have ", layout.bits_allocated, " bits allocated",
                           layout.is_signed ? ", signed" : "",
                           ", which its photometric interpretation does not allow"));
  }
  if (layout.kind != PixelElement::Kind::kInteger && !layout.is_grey()) {
    throw DataError("its float pixel data is in colour, which the standard does not have");
  }
}

}  // namespace

std::string describe_other_object(const DataSet& data, Judge judge) {
  DcmItem& root = data.root();
  const std::string uid = text_of(root, DCM_SOPClassUID), modality = text_of(root, DCM_Modality);
  for (const Named& each : kOtherClasses)
    if (is_class(uid, each.key)) return std::string(each.name);
  for (const Named& each : kOtherModalities)
    if (judge == Judge::kByClassAndModality && modality == each.key) return std::string(each.name);
  if (item_count(root, DCM_SegmentSequence) > 0) return "a segmentation";
  if (data.pixels().kind != PixelElement::Kind::kNone && data.pixels().length > 0) return "";
  if (item_count(root, DCM_DirectoryRecordSequence) > 0) return "a DICOMDIR, the index of a medium";
  if (uid.starts_with("1.2.840.10008.5.1.4.1.1.481."))
    return "a radiotherapy object without an image";
  return concat("a DICOM object without pixel data (SOP class ", uid.empty() ? "not stated" : uid,
                ")");
}

bool is_parametric_map(const DataSet& data) {
  return is_class(text_of(data.root(), DCM_SOPClassUID), "30");
}

std::int64_t stated_frames(DcmItem& root) {
  return whole_number(root, DCM_NumberOfFrames, "number of frames", 0, 0, 1e7);
}

PixelLayout read_layout(const DataSet& data) {
  constexpr double kAbsent = std::numeric_limits<double>::quiet_NaN();
  DcmItem& root = data.root();
  const std::string other = describe_other_object(data, Judge::kByClass);
  if (!other.empty()) throw DataError(concat("it holds no image: it is ", other));
  PixelLayout layout;
  layout.kind = data.pixels().kind;
  layout.rows = static_cast<int>(whole_number(root, DCM_Rows, "rows", kAbsent, 1, 65535));
  layout.columns = static_cast<int>(whole_number(root, DCM_Columns, "columns", kAbsent, 1, 65535));
  layout.samples =
      static_cast<int>(whole_number(root, DCM_SamplesPerPixel, "samples per pixel", 1, 1, 65535));
  layout.frames = stated_frames(root);
  layout.planar = number_of(root, DCM_PlanarConfiguration, 0) == 1;
  layout.photometric = read_photometric(data, data.syntax().coding);
  layout.chroma = read_chroma(data);
  read_bits(root, layout);
  require_known_shape(layout);
  return layout;
}

}  // namespace coldframe::frames::dicom
