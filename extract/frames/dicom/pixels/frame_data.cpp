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

// True if a fragment begins a code stream, for files without a table of offsets.
bool starts_frame(const ByteSource& bytes, const Extent& fragment, Coding coding) {
  const std::string head =
      bytes.read(fragment.offset, std::min<std::uint64_t>(12, fragment.length));
  const auto starts = [&](std::string_view mark) { return head.starts_with(mark); };
  if (coding == Coding::kJpeg2000) {
    return starts("\xFF\x4F\xFF\x51") || starts({"\0\0\0\x0CjP", 6});
  }
  return coding == Coding::kJpeg || coding == Coding::kJpegLs ? starts("\xFF\xD8") : true;
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

void FrameData::find_native(const DataSet& data) {
  native_ = {data.pixels().offset, data.pixels().length};
  const std::uint64_t there = data.bytes()->size() - std::min(native_.offset, data.bytes()->size());
  const std::uint64_t frame_bytes = (layout_.frame_bits() + 7) / 8;
  if (native_.length > there &&
      (there < frame_bytes || (native_.length - there) / frame_bytes > kMostLost)) {
    throw DataError(concat("it is truncated: ", native_.length,
                           " bytes of pixel data are announced, ", there, " are there"));
  }
  const std::uint64_t bits = native_.length * 8;
  if (bits / layout_.frame_bits() < static_cast<std::uint64_t>(layout_.frames)) {
    throw DataError(concat("its pixel data has ", native_.length, " bytes, too few for ",
                           plural(static_cast<std::size_t>(layout_.frames), "frame"), " of ",
                           (layout_.frame_bits() + 7) / 8, " bytes"));
  }
}

void FrameData::find_fragments(const DataSet& data) {
  const Fragments found = list_fragments(*data.bytes(), data.pixels().offset);
  const auto wanted = static_cast<std::uint64_t>(layout_.frames);
  if (!found.fault.empty()) {
    fault_ = found.fault;
    return find_whole_frames(*data.bytes(), found.items,
                             read_offsets(*data.bytes(), data, found.offset_table));
  }
  if (found.items.size() < wanted) {
    throw DataError(concat("its header states ", plural(wanted, "frame"), ", but its pixel data ",
                           "has only ", plural(found.items.size(), "fragment")));
  }
  frames_.resize(wanted);
  if (found.items.size() == wanted) {
    for (std::size_t i = 0; i < wanted; ++i) frames_[i].push_back(found.items[i]);
    return;
  }
  if (wanted == 1) {
    frames_[0] = found.items;
    return;
  }
  const auto offsets = read_offsets(*data.bytes(), data, found.offset_table);
  const bool by_table = offsets.size() == wanted;
  std::size_t frame = 0;
  for (std::size_t i = 0; i < found.items.size(); ++i) {
    const std::uint64_t start = found.items[i].offset - found.items[0].offset;
    const bool starts = by_table ? frame < wanted && offsets[frame] == start
                                 : starts_frame(*data.bytes(), found.items[i], syntax_.coding);
    if (starts) ++frame;
    if (frame == 0 || frame > wanted) break;
    frames_[frame - 1].push_back(found.items[i]);
  }
  if (frame != wanted) {
    throw DataError(concat("its ", found.items.size(), " fragments cannot be told apart into ",
                           wanted, " frames"));
  }
}

// Those of a file that is cut off behind these fragments. Each begins with 8 bytes before its
// content; offsets are relative to the first one.
void FrameData::find_whole_frames(const ByteSource& bytes, const std::vector<Extent>& items,
                                  const std::vector<std::uint64_t>& offsets) {
  const auto wanted = static_cast<std::uint64_t>(layout_.frames);
  const bool by_table = offsets.size() == wanted;
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
  if (frames_.empty() || frames_.size() > wanted || wanted - frames_.size() > kMostLost)
    throw DataError(fault_);
  frames_.resize(wanted);
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
