// JPEG, JPEG-LS and RLE frames through DCMTK's codecs, one frame at a time.
#include <dcmtk/dcmdata/dccodec.h>
#include <dcmtk/dcmdata/dcpixseq.h>
#include <dcmtk/dcmdata/dcpxitem.h>
#include <dcmtk/dcmdata/dcrledrg.h>
#include <dcmtk/dcmdata/dcxfer.h>
#include <dcmtk/dcmjpeg/djdecode.h>
#include <dcmtk/dcmjpls/djdecode.h>

#include <memory>
#include <mutex>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/frames/dicom/pixels/frame_data.h"
#include "extract/frames/dicom/pixels/jpeg_header.h"

namespace coldframe::frames::dicom {
namespace {

// Registers the codecs for the life of the process. They leave colours as they are coded; we
// convert them.
void register_codecs() {
  static std::once_flag once;
  std::call_once(once, [] {
    DJDecoderRegistration::registerCodecs(EDC_never);
    DJLSDecoderRegistration::registerCodecs();
    DcmRLEDecoderRegistration::registerCodecs();
  });
}

// The layout that the codec will deliver: pixel by pixel, in whole bytes.
PixelLayout decoded_layout(const TransferSyntax& syntax, const PixelLayout& layout,
                           std::string_view code) {
  PixelLayout decoded = layout;
  decoded.planar = false;
  if (syntax.coding == Coding::kRle) return decoded;
  const JpegHeader header = read_jpeg_header(code);
  if (header.rows != layout.rows || header.columns != layout.columns ||
      header.components != layout.samples) {
    throw DataError(
        concat("a frame's JPEG code has ", header.columns, "×", header.rows, " pixels of ",
               plural(static_cast<std::size_t>(header.components), "sample"),
               ", its header states ", layout.columns, "×", layout.rows, " of ", layout.samples));
  }
  if (header.precision < 2 || header.precision > 16) {
    throw DataError(concat("a frame's JPEG code has ", header.precision, " bits"));
  }
  decoded.bits_allocated = header.precision > 8 ? 16 : 8;
  if (layout.bits_stored > decoded.bits_allocated) {
    decoded.bits_stored = header.precision;
    decoded.high_bit = header.precision - 1;
  }
  if (header.rgb_components) {
    decoded.photometric = Photometric::kRgb;
  } else if (header.jfif && layout.photometric == Photometric::kRgb) {
    decoded.photometric = Photometric::kYbrFull;
  }
  return decoded;
}

// The attributes that the codecs look at, for one frame alone.
void describe(DcmItem& item, const PixelLayout& layout) {
  const auto put = [&](const DcmTagKey& tag, int value) {
    if (item.putAndInsertUint16(tag, static_cast<Uint16>(value)).bad()) throw std::bad_alloc();
  };
  put(DCM_Rows, layout.rows);
  put(DCM_Columns, layout.columns);
  put(DCM_SamplesPerPixel, layout.samples);
  put(DCM_BitsAllocated, layout.bits_allocated);
  put(DCM_BitsStored, layout.bits_stored);
  put(DCM_HighBit, layout.high_bit);
  put(DCM_PixelRepresentation, layout.is_signed ? 1 : 0);
  put(DCM_PlanarConfiguration, 0);
  const char* photometric = layout.photometric == Photometric::kYbrFull ? "YBR_FULL" : "RGB";
  item.putAndInsertString(DCM_PhotometricInterpretation,
                          layout.samples == 1 ? "MONOCHROME2" : photometric);
  item.putAndInsertString(DCM_NumberOfFrames, "1");
}

}  // namespace

RawFrame decode_with_dcmtk(const TransferSyntax& syntax, const PixelLayout& layout,
                           std::string code) {
  register_codecs();
  RawFrame raw{decoded_layout(syntax, layout, code), {}};
  DcmDataset item;
  describe(item, raw.layout);
  if (code.size() % 2 != 0) code += '\0';
  DcmPixelSequence sequence(DcmTag(DCM_PixelData, EVR_OB));
  for (const std::string_view part : {std::string_view(), std::string_view(code)}) {
    auto fragment = std::make_unique<DcmPixelItem>(DcmTag(DCM_Item, EVR_OB));
    if (!part.empty() &&
        fragment->putUint8Array(reinterpret_cast<const Uint8*>(part.data()), part.size()).bad()) {
      throw DataError("a frame's code cannot be handed to the decoder");
    }
    sequence.insert(fragment.release());
  }
  // One byte more than an odd frame, which the codecs fill up to whole words.
  const std::uint64_t size = raw.layout.frame_bits() / 8;
  raw.samples.assign(size + size % 2, '\0');
  Uint32 fragment = 1;
  OFString color_model;
  const OFCondition status = DcmCodecList::decodeFrame(
      DcmXfer(syntax.uid.c_str()), nullptr, &sequence, &item, 0, fragment, raw.samples.data(),
      static_cast<Uint32>(raw.samples.size()), color_model);
  if (status.bad()) throw DataError(concat("a frame cannot be decoded: ", status.text()));
  return raw;
}

}  // namespace coldframe::frames::dicom
