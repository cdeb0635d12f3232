#include "extract/frames/dicom/pixels/frame_data.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/text/text.h"

namespace coldframe::frames::dicom {
namespace {

// More pixels for a byte than this no code of a real image has; small frames may.
constexpr std::uint64_t kMaxPixelsPerByte = 1 << 16;
constexpr std::uint64_t kSmallFrame = 1 << 22;

constexpr std::uint32_t kItem = 0xE000, kSequenceEnd = 0xE0DD;

// A file that is cut off may have this many frames fewer than its header states.
constexpr std::uint64_t kMostLost = 1 << 16;

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

// The items of an encapsulated pixel data element, always in little endian. DataError behind the
// last one that is whole.
void add_fragments(const ByteSource& bytes, std::uint64_t at, Fragments& found) {
  for (bool first = true;; first = false) {
    if (at == bytes.size()) {
      throw DataError(concat("it is truncated: its pixel data has no end mark behind fragment ",
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

// What lies behind the frames is padding where it is less than a row, which no wrong shape leaves,
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
      (there < frame_bytes || (native_.length - there) / frame_bytes > kMostLost)) {
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

// Those of a file that is cut off behind these fragments. Each begins with 8 bytes before its
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
  if (frames_.empty() || frames - frames_.size() > kMostLost) throw DataError(fault_);
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

}  // namespace coldframe::frames::dicom
