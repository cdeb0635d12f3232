// JPEG, JPEG-LS and RLE frames through DCMTK's codecs, one frame at a time.
#include <dcmtk/dcmdata/dccodec.h>
#include <dcmtk/dcmdata/dcpixseq.h>
#include <dcmtk/dcmdata/dcpxitem.h>
#include <dcmtk/dcmdata/dcrledrg.h>
#include <dcmtk/dcmdata/dcxfer.h>
#include <dcmtk/dcmjpeg/djdecode.h>
#include <dcmtk/dcmjpls/djdecode.h>

#include <algorithm>
#include <bit>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/text/text.h"
#include "extract/frames/dicom/pixels/frame_data.h"

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

bool is_frame_header(std::uint32_t marker) {
  const bool table = marker == 0xC4 || marker == 0xC8 || marker == 0xCC;
  return (marker >= 0xC0 && marker <= 0xCF && !table) || marker == 0xF7;  // F7: JPEG-LS
}

// The header of a JPEG or JPEG-LS code stream, read without decoding (ISO/IEC 10918-1 B.2.2).
struct JpegHeader {
  int rows = 0, columns = 0, components = 0, precision = 0;
  bool dct = false;             // lossy: baseline, extended or progressive
  bool rgb_components = false;  // its components are called R, G, B
  bool jfif = false;            // hence YCbCr
  int adobe = -1;               // Adobe's transform: 0 none, 1 YCbCr; -1: not stated
  bool chroma_apart = false;  // the last two components share sampling and table, unlike the first

  // As the code itself says: by its markers, else by how its components are coded.
  bool says_rgb() const { return rgb_components || (adobe == 0 && !jfif); }
  bool says_ybr() const {
    return !says_rgb() && components == 3 && (jfif || adobe == 1 || (dct && chroma_apart));
  }
};

// DataError when there is no frame header.
JpegHeader read_jpeg_header(std::string_view code) {
  const ByteCursor reader(code, std::endian::big);
  JpegHeader header;
  if (!reader.holds(0, "\xFF\xD8")) throw DataError("a frame does not start as JPEG does");
  for (std::uint64_t at = 2;;) {
    if (reader.u8(at) != 0xFF) throw DataError("a frame's JPEG header is damaged");
    const std::uint32_t marker = reader.u8(at + 1);
    if (marker == 0xFF) {  // padding
      ++at;
      continue;
    }
    if (marker == 0xD9 || marker == 0xDA) throw DataError("a frame's JPEG code has no size");
    const std::uint64_t length = reader.u16(at + 2);
    if (marker == 0xE0 && reader.holds(at + 4, "JFIF")) header.jfif = true;
    if (marker == 0xEE && length >= 14 && reader.holds(at + 4, "Adobe"))
      header.adobe = static_cast<int>(reader.u8(at + 15));
    if (is_frame_header(marker)) {
      header.precision = static_cast<int>(reader.u8(at + 4));
      header.rows = static_cast<int>(reader.u16(at + 5));
      header.columns = static_cast<int>(reader.u16(at + 7));
      header.components = static_cast<int>(reader.u8(at + 9));
      if (header.components == 3) {
        std::string ids;
        for (int i = 0; i < 3; ++i) ids += static_cast<char>(reader.u8(at + 10 + 3 * i));
        header.rgb_components = lower(ids) == "rgb";
        header.dct = marker >= 0xC0 && marker <= 0xC2;
        const auto sampling = [&](int i) { return reader.u16(at + 11 + 3 * i); };  // and table
        header.chroma_apart = sampling(1) == sampling(2) && sampling(1) != sampling(0);
      }
      return header;
    }
    at += 2 + std::max<std::uint64_t>(length, 2);
  }
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
  if (layout.samples == 3 && header.says_rgb()) {
    decoded.photometric = Photometric::kRgb;
  } else if (header.says_ybr() && (header.jfif || layout.photometric == Photometric::kRgb)) {
    decoded.photometric = Photometric::kYbrFull;
  }
  return decoded;
}

std::string note_of(const PixelLayout& stated, const PixelLayout& decoded) {
  const auto name = [](const PixelLayout& layout) {
    if (layout.photometric == Photometric::kRgb) return "RGB";
    return layout.photometric == Photometric::kYbrFull ? "YBR_FULL" : "YBR_PARTIAL";
  };
  if (stated.photometric == decoded.photometric) return "";
  return concat("its header calls its colours ", name(stated), ", its JPEG code ", name(decoded),
                ", which was taken");
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
  const char* photometric = layout.photometric == Photometric::kRgb ? "RGB" : "YBR_FULL";
  item.putAndInsertString(DCM_PhotometricInterpretation,
                          layout.samples == 1 ? "MONOCHROME2" : photometric);
  item.putAndInsertString(DCM_NumberOfFrames, "1");
}

}  // namespace

RawFrame decode_with_dcmtk(const TransferSyntax& syntax, const PixelLayout& layout,
                           std::string code) {
  register_codecs();
  RawFrame raw{decoded_layout(syntax, layout, code), {}};
  raw.note = note_of(layout, raw.layout);
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
