#include "extract/decode/dicom/frame_data.h"

#include <dcmtk/dcmdata/dccodec.h>
#include <dcmtk/dcmdata/dcpixseq.h>
#include <dcmtk/dcmdata/dcpxitem.h>
#include <dcmtk/dcmdata/dcrledrg.h>
#include <dcmtk/dcmdata/dcxfer.h>
#include <dcmtk/dcmjpeg/djdecode.h>
#include <dcmtk/dcmjpls/djdecode.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/text/text.h"
#include "extract/decode/frame.h"
#include "extract/decode/image/jpeg2000.h"

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
  if (layout.kind != PixelElement::Kind::kInteger) {
    layout.bits_allocated = layout.kind == PixelElement::Kind::kFloat ? 32 : 64;
    return;
  }
  const auto number = [&](const DcmTagKey& tag, const char* name, double otherwise, double least,
                          double greatest) {
    return static_cast<int>(whole_number(root, tag, name, otherwise, least, greatest));
  };
  const int allocated = number(DCM_BitsAllocated, "bits allocated", kNotStated, 1, 32);
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
  DcmItem& root = data.root();
  const std::string other = describe_other_object(data, Judge::kByClass);
  if (!other.empty()) throw DataError(concat("it holds no image: it is ", other));
  PixelLayout layout;
  layout.kind = data.pixels().kind;
  layout.rows = static_cast<int>(whole_number(root, DCM_Rows, "rows", kNotStated, 1, 65535));
  layout.columns =
      static_cast<int>(whole_number(root, DCM_Columns, "columns", kNotStated, 1, 65535));
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

namespace {

// More pixels for a byte than this no code of a real image has; small frames may.
constexpr std::uint64_t kMaxPixelsPerByte = 1 << 16;
constexpr std::uint64_t kSmallFrame = 1 << 22;

constexpr std::uint32_t kItem = 0xE000, kSequenceEnd = 0xE0DD;

// A file that is truncated may have this many frames fewer than its header states.
constexpr std::uint64_t kMaxLost = 1 << 16;

bool is_zero(const ByteSource& bytes, std::uint64_t at, std::uint64_t count) {
  constexpr std::uint64_t kPiece = 1 << 16;
  for (const std::uint64_t end = at + count; at < end; at += kPiece) {
    const std::string piece = bytes.read(at, std::min(kPiece, end - at));
    if (piece.find_first_not_of('\0') != std::string::npos) return false;
  }
  return true;
}

struct Fragments {
  Extent offset_table;
  std::vector<Extent> items;
  std::string fault;  // why there are no more of them; "" where their list has its end mark
};

// The items of an encapsulated pixel data element, always in little endian. DataError after the
// last one that is whole.
void add_fragments(const ByteSource& bytes, std::uint64_t at, Fragments& found) {
  for (bool first = true;; first = false) {
    if (at == bytes.size()) {
      throw DataError(concat("it is truncated: its pixel data has no end mark after fragment ",
                             found.items.size()));
    }
    const std::string header = bytes.read(at, 8);
    const ByteCursor reader(header, std::endian::little);
    const std::uint64_t length = reader.u32(4);
    if (reader.u16(0) != 0xFFFE || (reader.u16(2) != kItem && reader.u16(2) != kSequenceEnd)) {
      throw DataError(concat("its pixel data is damaged: no fragment starts at byte ", at));
    }
    if (reader.u16(2) == kSequenceEnd) return;
    at += 8;
    if (length > bytes.size() - at) {
      throw DataError(concat("it is truncated: it ends ", length - (bytes.size() - at),
                             " bytes before the end of pixel data fragment ",
                             found.items.size() + (first ? 0 : 1)));
    }
    (first ? found.offset_table : found.items.emplace_back()) = {at, length};
    at += length;
  }
}

Fragments list_fragments(const ByteSource& bytes, std::uint64_t at) {
  Fragments found;
  try {
    add_fragments(bytes, at, found);
  } catch (const DataError& error) {
    if (found.items.empty()) throw;
    found.fault = error.what();
  }
  return found;
}

// Starts of frames relative to the first fragment's item: the extended table (64 bits), else the
// basic one; empty when the file has none.
std::vector<std::uint64_t> read_offsets(const ByteSource& bytes, const DataSet& data,
                                        const Extent& table) {
  const Uint64* extended = nullptr;
  unsigned long count = 0;
  if (data.root().findAndGetUint64Array(DcmTagKey(0x7FE0, 0x0001), extended, &count).good() &&
      extended != nullptr) {
    return {extended, extended + count};
  }
  std::vector<std::uint64_t> offsets;
  const std::string content = bytes.read(table.offset, table.length);
  const ByteCursor reader(content, std::endian::little);
  for (std::uint64_t at = 0; at + 4 <= reader.size(); at += 4) offsets.push_back(reader.u32(at));
  return offsets;
}

// True if a fragment begins a code stream, for files without a table of offsets. RLE: a header of
// 16 numbers, of which the first counts the segments and the second is where they begin (PS3.5
// G.5).
bool starts_frame(const ByteSource& bytes, const Extent& fragment, Coding coding) {
  const std::string head =
      bytes.read(fragment.offset, std::min<std::uint64_t>(12, fragment.length));
  const auto starts = [&](std::string_view mark) { return head.starts_with(mark); };
  switch (coding) {
    case Coding::kJpeg2000:
      return starts("\xFF\x4F\xFF\x51") || starts({"\0\0\0\x0CjP", 6});
    case Coding::kJpeg:
    case Coding::kJpegLs:
      return starts("\xFF\xD8");
    case Coding::kRle: {
      const ByteCursor reader(head, std::endian::little);
      return head.size() >= 8 && reader.u32(0) >= 1 && reader.u32(0) <= 15 && reader.u32(4) == 64;
    }
    default:
      return true;
  }
}

// The fragments that start frames, by the table of offsets where it fits the fragments, or by their
// first bytes; whichever finds more, for some tables hold the first frame alone. Empty where the
// first fragment starts none. Offsets count from the first one's item, 8 bytes before its content.
std::vector<std::size_t> frame_starts(const ByteSource& bytes, const std::vector<Extent>& items,
                                      const std::vector<std::uint64_t>& offsets, Coding coding) {
  std::vector<std::size_t> listed, marked;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (listed.size() < offsets.size() &&
        offsets[listed.size()] == items[i].offset - items[0].offset)
      listed.push_back(i);
    if (starts_frame(bytes, items[i], coding)) marked.push_back(i);
  }
  if (listed.size() < offsets.size()) listed.clear();
  if (!marked.empty() && marked.front() != 0) marked.clear();
  return listed.size() >= marked.size() ? listed : marked;
}

// True if a frame's last fragment ends as its code does: JPEG's three kinds have an end mark, and a
// padding byte may follow it. Other codes are one fragment a frame.
bool ends_frame(const ByteSource& bytes, const Extent& fragment, Coding coding) {
  if (coding != Coding::kJpeg && coding != Coding::kJpegLs && coding != Coding::kJpeg2000)
    return true;
  const std::uint64_t length = std::min<std::uint64_t>(3, fragment.length);
  const std::string tail = bytes.read(fragment.offset + fragment.length - length, length);
  return tail.find("\xFF\xD9") != std::string::npos;
}

// Single bits, from `first_bit` on, become a byte each.
void unpack_bits(RawFrame& raw, std::uint64_t first_bit) {
  if (raw.layout.bits_allocated != 1) return;
  std::string unpacked(raw.layout.pixels(), '\0');
  for (std::uint64_t i = 0; i < unpacked.size(); ++i) {
    const std::uint64_t bit = first_bit + i;
    unpacked[i] =
        static_cast<char>(static_cast<unsigned char>(raw.samples[bit / 8]) >> bit % 8 & 1);
  }
  raw.samples = std::move(unpacked);
  raw.layout.bits_allocated = 8;
}

}  // namespace

FrameData::FrameData(const DataSet& data, const PixelLayout& layout)
    : layout_(layout),
      syntax_(data.syntax()),
      words_(data.pixels().words),
      deflated_(data.deflated()) {
  if (syntax_.coding == Coding::kUnsupported) {
    throw DataError(concat("its transfer syntax is ", syntax_.uid, ", which cannot be decoded; ",
                           "uncompressed, deflated, RLE, JPEG, JPEG-LS and JPEG 2000 can"));
  }
  if (data.pixels().undefined_length != syntax_.encapsulated) {
    throw DataError(concat("its pixel data is ", syntax_.encapsulated ? "not " : "",
                           "in fragments, against its transfer syntax ", syntax_.uid));
  }
  if (syntax_.encapsulated) {
    find_fragments(data);
  } else {
    find_native(data);
  }
}

// A frame may be stored with a chroma sample for each pixel although the header says that pixels
// share them.
void FrameData::settle_chroma() {
  if (layout_.chroma == Chroma::kOwn) return;
  PixelLayout whole = layout_;
  whole.chroma = Chroma::kOwn;
  const auto fits = [this](const PixelLayout& layout, std::int64_t frames) {
    const std::uint64_t bytes = layout.frame_bits() / 8;
    const std::uint64_t held = native_.length / bytes;
    return held > 0 && (frames == 0 || held == static_cast<std::uint64_t>(frames)) &&
           native_.length % bytes <= 1;
  };
  const bool pairs = layout_.chroma == Chroma::kPairs && layout_.columns % 2 == 0;
  if (fits(whole, layout_.frames) || (fits(whole, 0) && !(pairs && fits(layout_, 0)))) {
    if (pairs && layout_.frames == 0 && fits(layout_, 0))
      throw DataError(
          "its pixels may share their chroma or not, for its header states no number of frames and "
          "both fit its pixel data; state the number");
    notes_.emplace_back(
        "its photometric interpretation says that pixels share their chroma, its pixel data has "
        "one for each");
    layout_ = whole;
  } else if (!pairs) {
    throw DataError(concat("its uncompressed pixels share their chroma, with ", layout_.columns,
                           " columns, in a way that the standard does not define; convert it to ",
                           "RGB"));
  }
}

// What lies after the frames is padding where it is less than a row, which no wrong shape leaves,
// or zeros alone.
void FrameData::require_padding(const ByteSource& bytes, std::uint64_t excess) const {
  const std::uint64_t frame_bytes = (layout_.frame_bits() + 7) / 8;
  if (excess * layout_.rows < frame_bytes || excess < 2) return;
  if (is_zero(bytes, native_.offset + native_.length - excess, excess)) return;
  throw DataError(concat("its pixel data has ", native_.length,
                         " bytes, which are no whole number "
                         "of frames of ",
                         frame_bytes, " bytes: its rows, columns, samples per ",
                         "pixel or bits allocated are others than its header states"));
}

void FrameData::note_frames(std::int64_t held) {
  if (layout_.frames == 0 && held > 1)
    notes_.push_back(concat("its header states no number of frames, its pixel data holds ", held));
  if (layout_.frames > 0 && held != layout_.frames)
    notes_.push_back(concat("its header states ", plural(layout_.frames, "frame"),
                            ", its pixel data holds ", held));
  layout_.frames = held;
}

void FrameData::find_native(const DataSet& data) {
  native_ = {data.pixels().offset, data.pixels().length};
  settle_chroma();
  const ByteSource& bytes = *data.bytes();
  const std::uint64_t there = bytes.size() - std::min(native_.offset, bytes.size());
  const std::uint64_t frame_bytes = (layout_.frame_bits() + 7) / 8;
  if (native_.length > there &&
      (there < frame_bytes || (native_.length - there) / frame_bytes > kMaxLost)) {
    throw DataError(concat("it is truncated: ", native_.length,
                           " bytes of pixel data are announced, ", there, " are there"));
  }
  const std::uint64_t held = native_.length * 8 / layout_.frame_bits();
  const auto stated = static_cast<std::uint64_t>(std::max<std::int64_t>(1, layout_.frames));
  if (held < stated) {
    throw DataError(concat("its pixel data has ", native_.length, " bytes, too few for ",
                           plural(stated, "frame"), " of ", frame_bytes, " bytes"));
  }
  if (native_.length > there) return note_frames(static_cast<std::int64_t>(held));
  const std::uint64_t used = (stated * layout_.frame_bits() + 7) / 8;
  const bool padded = held > stated && is_zero(bytes, native_.offset + used, native_.length - used);
  note_frames(static_cast<std::int64_t>(padded ? stated : held));
  if (!padded) require_padding(bytes, native_.length - (held * layout_.frame_bits() + 7) / 8);
}

void FrameData::find_fragments(const DataSet& data) {
  const ByteSource& bytes = *data.bytes();
  const Fragments found = list_fragments(bytes, data.pixels().offset);
  const auto stated = static_cast<std::uint64_t>(layout_.frames);
  if (!found.fault.empty()) {
    fault_ = found.fault;
    return find_whole_frames(bytes, found.items, read_offsets(bytes, data, found.offset_table));
  }
  if (found.items.size() < std::max<std::uint64_t>(1, stated)) {
    throw DataError(concat("its header states ", plural(stated, "frame"), ", but its pixel data ",
                           "has only ", plural(found.items.size(), "fragment")));
  }
  std::vector<std::size_t> starts;
  if (found.items.size() == stated) {
    for (std::size_t i = 0; i < stated; ++i) starts.push_back(i);
  } else if (found.items.size() > 1) {
    const auto offsets = read_offsets(bytes, data, found.offset_table);
    starts = frame_starts(bytes, found.items, offsets, syntax_.coding);
  }
  if (starts.empty() && stated < 2) starts.push_back(0);
  if (starts.size() < stated) {
    throw DataError(concat("its ", found.items.size(), " fragments cannot be told apart into ",
                           stated, " frames"));
  }
  starts.push_back(found.items.size());
  for (std::size_t i = 0; i + 1 < starts.size(); ++i)
    frames_.emplace_back(found.items.begin() + static_cast<std::ptrdiff_t>(starts[i]),
                         found.items.begin() + static_cast<std::ptrdiff_t>(starts[i + 1]));
  note_frames(std::ssize(frames_));
}

// Those of a file that is truncated after these fragments. Each begins with 8 bytes before its
// content; offsets are relative to the first one.
void FrameData::find_whole_frames(const ByteSource& bytes, const std::vector<Extent>& items,
                                  const std::vector<std::uint64_t>& offsets) {
  const auto wanted =
      layout_.frames > 0 ? static_cast<std::uint64_t>(layout_.frames) : offsets.size();
  const bool by_table = offsets.size() == wanted && wanted > 0;
  const std::uint64_t first = items[0].offset;
  const std::uint64_t end = items.back().offset + items.back().length + 8 - first;
  for (const Extent& item : items) {
    const std::size_t next = frames_.size();
    if (by_table ? next < wanted && offsets[next] == item.offset - first
                 : starts_frame(bytes, item, syntax_.coding)) {
      frames_.emplace_back();
    }
    if (!frames_.empty()) frames_.back().push_back(item);
  }
  const bool last_is_whole = by_table && frames_.size() < wanted
                                 ? offsets[frames_.size()] == end
                                 : ends_frame(bytes, items.back(), syntax_.coding);
  if (!frames_.empty() && !last_is_whole) frames_.pop_back();
  const std::uint64_t frames = std::max<std::uint64_t>(wanted, frames_.size());
  if (frames_.empty() || frames - frames_.size() > kMaxLost) throw DataError(fault_);
  frames_.resize(frames);
  note_frames(std::ssize(frames_));
}

std::int64_t held_frames(const DataSet& data) {
  try {
    const std::int64_t stated = stated_frames(data.root());
    if (stated <= 1) return FrameData(data, read_layout(data)).layout().frames;
    // No frame takes less than a byte.
    return std::min(stated, static_cast<std::int64_t>(data.bytes()->size()));
  } catch (const DataError&) {  // reading it says why
    return 1;
  }
}

std::vector<Extent> find_stream(const DataSet& data) {
  if (!data.pixels().undefined_length) throw DataError("its video is not in fragments");
  Fragments found = list_fragments(*data.bytes(), data.pixels().offset);
  if (!found.fault.empty()) throw DataError(found.fault);
  if (found.items.empty()) throw DataError("its pixel data has no fragment");
  return std::move(found.items);
}

RawFrame FrameData::read(const ByteSource& bytes, std::int64_t frame) const {
  if (!syntax_.encapsulated) return read_native(bytes, frame);
  if (frames_.at(static_cast<std::size_t>(frame)).empty() && !fault_.empty())
    throw DataError(fault_);
  std::uint64_t length = 0;
  for (const Extent& part : frames_.at(static_cast<std::size_t>(frame))) length += part.length;
  if (layout_.pixels() > kSmallFrame && layout_.pixels() / kMaxPixelsPerByte > length) {
    throw DataError(concat("its ", layout_.columns, "×", layout_.rows, " pixels cannot come from ",
                           length, " bytes"));
  }
  std::string code;
  code.reserve(length);
  for (const Extent& part : frames_[static_cast<std::size_t>(frame)]) {
    code += bytes.read(part.offset, part.length);
  }
  if (syntax_.coding == Coding::kJpeg2000) return decode_jpeg2000(layout_, code);
  if (syntax_.coding != Coding::kNative)
    return decode_with_dcmtk(syntax_, layout_, std::move(code));
  if (code.size() * 8 < layout_.frame_bits()) {
    throw DataError(concat("a frame has ", code.size(), " bytes, too few for ", layout_.columns,
                           "×", layout_.rows, " pixels"));
  }
  RawFrame raw{layout_, std::move(code)};
  unpack_bits(raw, 0);
  return raw;
}

// Frames of single bits are packed without gaps between frames.
RawFrame FrameData::read_native(const ByteSource& bytes, std::int64_t frame) const {
  const std::uint64_t bits = layout_.frame_bits();
  const std::uint64_t first_bit = static_cast<std::uint64_t>(frame) * bits;
  std::uint64_t first = first_bit / 8, end = (first_bit + bits + 7) / 8;
  const bool swapped_words = syntax_.big_endian && words_ && layout_.bits_allocated <= 8;
  const std::uint64_t before = swapped_words ? first % 2 : 0;
  if (swapped_words) end = std::min(end + end % 2, native_.length);
  RawFrame raw{layout_, bytes.read(native_.offset + first - before, end - first + before)};
  const std::size_t unit =
      swapped_words ? 2 : static_cast<std::size_t>(std::max(layout_.bits_allocated / 8, 1));
  if (syntax_.big_endian) {
    for (std::size_t at = 0; at + unit <= raw.samples.size(); at += unit) {
      std::reverse(raw.samples.begin() + static_cast<std::ptrdiff_t>(at),
                   raw.samples.begin() + static_cast<std::ptrdiff_t>(at + unit));
    }
  }
  raw.samples.erase(0, before);
  unpack_bits(raw, first_bit % 8);
  return raw;
}

// JPEG, JPEG-LS and RLE frames through DCMTK's codecs, one frame at a time.

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

// DataError if there is no frame header.
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

// DCMTK 3.6.7 reads where the table of segments points, within the frame or not (PS3.5 G.5: the
// number of segments, then where each begins, in 16 numbers of 32 bits).
void require_segments(std::string_view code) {
  constexpr std::uint64_t kTable = 64;
  const ByteCursor reader(code, std::endian::little);
  const std::uint64_t segments = code.size() < kTable ? 0 : reader.u32(0);
  bool sound = segments >= 1 && segments <= 15;
  for (std::uint64_t i = 1, before = kTable - 1; sound && i <= segments; ++i) {
    const std::uint64_t begin = reader.u32(4 * i);
    sound = begin > before && begin < code.size();
    before = begin;
  }
  if (!sound) {
    throw DataError(concat("a frame cannot be decoded: the segments of its RLE code do not lie in ",
                           "its ", code.size(), " bytes"));
  }
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
  if (syntax.coding == Coding::kRle) require_segments(code);
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

// JPEG 2000 frames.

namespace {

void require_like(const PixelLayout& layout, const opj_image_t& image) {
  bool alike = image.numcomps == static_cast<OPJ_UINT32>(layout.samples);
  for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
    const opj_image_comp_t& component = image.comps[i];
    alike = alike && component.w == static_cast<OPJ_UINT32>(layout.columns) &&
            component.h == static_cast<OPJ_UINT32>(layout.rows) && component.prec >= 1 &&
            component.prec <= 31;
  }
  if (alike) return;
  throw DataError(concat("a frame's JPEG 2000 code has ", image.numcomps > 0 ? image.comps[0].w : 0,
                         "×", image.numcomps > 0 ? image.comps[0].h : 0, " pixels of ",
                         plural(image.numcomps, "sample"), ", its header states ", layout.columns,
                         "×", layout.rows, " of ", layout.samples));
}

bool needs_more_bits(const opj_image_t& image, int bits) {
  const std::int64_t end = std::int64_t{1} << bits;
  for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
    const opj_image_comp_t& component = image.comps[i];
    const std::size_t pixels = std::size_t{component.w} * component.h;
    if (component.data != nullptr &&
        std::any_of(component.data, component.data + pixels,
                    [&](OPJ_INT32 value) { return value >= end || value < -end / 2; }))
      return true;
  }
  return false;
}

}  // namespace

RawFrame decode_jpeg2000(const PixelLayout& layout, std::string_view code) {
  const Jpeg2000Pixels pixels =
      decode_jpeg2000_code(code, [&](const opj_image_t& image) { require_like(layout, image); });
  const opj_image_t& image = *pixels;
  RawFrame raw{layout, {}};
  raw.layout.planar = true;
  raw.layout.bits_allocated = image.comps[0].prec > 16 ? 32 : image.comps[0].prec > 8 ? 16 : 8;
  raw.layout.bits_allocated = std::max(raw.layout.bits_allocated, layout.bits_allocated);
  // The code knows how many bits its values have, the header whether they are signed.
  const int bits = static_cast<int>(image.comps[0].prec);
  if (bits > layout.bits_stored && needs_more_bits(image, layout.bits_stored))
    raw.note = concat("its header states ", layout.bits_stored, " bits, its JPEG 2000 code ", bits);
  else if ((image.comps[0].sgnd != 0) != layout.is_signed)
    raw.note = concat("its header states ", layout.is_signed ? "signed" : "unsigned",
                      " values, its JPEG 2000 code ", layout.is_signed ? "unsigned" : "signed",
                      " ones: as the header says");
  raw.layout.bits_stored = bits;
  raw.layout.high_bit = bits - 1;
  const std::size_t unit = static_cast<std::size_t>(raw.layout.bits_allocated) / 8;
  raw.samples.resize(layout.pixels() * layout.samples * unit);
  char* out = raw.samples.data();
  for (OPJ_UINT32 i = 0; i < image.numcomps; ++i) {
    if (image.comps[i].data == nullptr) throw DataError("a frame's JPEG 2000 code has no pixels");
    for (std::uint64_t pixel = 0; pixel < layout.pixels(); ++pixel, out += unit) {
      const OPJ_INT32 value = image.comps[i].data[pixel];
      std::memcpy(out, &value, unit);  // little endian
    }
  }
  return raw;
}

}  // namespace coldframe::frames::dicom
