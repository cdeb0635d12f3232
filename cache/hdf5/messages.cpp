#include "cache/hdf5/messages.h"

#include <algorithm>

#include "cache/format/format.h"
#include "cache/hdf5/file_reader.h"
#include "cache/hdf5/object_header.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {
namespace {

// IV.A.2.d: the encoding of a type without its version: class, 3 bytes of flags, size, properties.
// The first property of an integer or a float is the offset of its bits, the second their number.
struct NumberEncoding {
  DType type;
  unsigned kind, flags, size;
  std::uint64_t properties[2];
};

constexpr unsigned kInteger = 0, kFloat = 1, kString = 3;
constexpr unsigned kSigned = 0x08, kImpliedBit = 0x20;
constexpr unsigned kNulPaddedUtf8 = 0x11;

// Exponent's location and size, mantissa's location and size, then the bias of 4 bytes.
constexpr std::uint64_t float_properties(unsigned exponent_at, unsigned exponent_bits,
                                         unsigned mantissa_bits, unsigned bias) {
  return exponent_at | exponent_bits << 8 | std::uint64_t{mantissa_bits} << 24 |
         std::uint64_t{bias} << 32;
}
constexpr std::uint64_t bits(unsigned count) {
  return std::uint64_t{count} << 16;
}

constexpr NumberEncoding kNumbers[] = {
    {DType::kUint8, kInteger, 0, 1, {bits(8), 0}},
    {DType::kInt32, kInteger, kSigned, 4, {bits(32), 0}},
    {DType::kInt64, kInteger, kSigned, 8, {bits(64), 0}},
    {DType::kUint32, kInteger, 0, 4, {bits(32), 0}},
    {DType::kUint64, kInteger, 0, 8, {bits(64), 0}},
    {DType::kFp16, kFloat, kImpliedBit | 15 << 8, 2, {bits(16), float_properties(10, 5, 10, 15)}},
    {DType::kFp32, kFloat, kImpliedBit | 31 << 8, 4, {bits(32), float_properties(23, 8, 23, 127)}},
    {DType::kFp64,
     kFloat,
     kImpliedBit | 63 << 8,
     8,
     {bits(64), float_properties(52, 11, 52, 1023)}},
};

}  // namespace

Datatype decode_datatype(Bytes body) {
  Cursor cursor(body, "a type");
  const auto kind_and_version = static_cast<unsigned>(cursor.number(1));
  const unsigned kind = kind_and_version & 0x0f, version = kind_and_version >> 4;
  const auto flags = static_cast<unsigned>(cursor.number(3));
  const std::uint64_t size = cursor.number(4);
  const bool known_version = version >= 1 && version <= 3;
  if (known_version && kind == kString) {
    require(size > 0 && size <= kLongestText, concat("a text of ", size, " bytes"));
    if (flags == kNulPaddedUtf8) return {kText, size};
  }
  if (known_version && (kind == kInteger || kind == kFloat)) {
    const std::uint64_t first = cursor.number(4), second = kind == kFloat ? cursor.number(8) : 0;
    for (const NumberEncoding& number : kNumbers)
      if (number.kind == kind && number.flags == flags && number.size == size &&
          number.properties[0] == first && number.properties[1] == second)
        return {number.type, 0};
  }
  throw CacheError("a type that this format does not have");
}

Link decode_link(Bytes body) {
  constexpr unsigned kNameWidth = 0x03, kHasOrder = 0x04, kHasKind = 0x08, kHasCharset = 0x10;
  Cursor cursor(body, "a link");
  require(cursor.number(1) == 1, "a link of another version than this format has");
  const auto flags = static_cast<unsigned>(cursor.number(1));
  Link link;
  link.is_hard = (flags & kHasKind) == 0 || cursor.number(1) == 0;
  if ((flags & kHasOrder) != 0) link.order = cursor.number(8);
  if ((flags & kHasCharset) != 0) cursor.take(1);
  const std::uint64_t length = cursor.number(std::size_t{1} << (flags & kNameWidth));
  require(length > 0 && length <= kLongestLinkName, "a link with an impossible name");
  const Bytes name = cursor.take(length);
  link.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  require(link.name.find('\0') == std::string::npos, "a link with an impossible name");
  if (link.is_hard) link.address = cursor.number(8);
  return link;
}

Dataspace decode_dataspace(Bytes body) {
  constexpr std::uint64_t kMostRank = 32, kHasLargest = 0x01;
  Cursor cursor(body, "a data space");
  require(cursor.number(1) == 2, "a data space of another version than this format has");
  const std::uint64_t rank = cursor.number(1), flags = cursor.number(1), kind = cursor.number(1);
  require(kind <= 2 && rank <= kMostRank && (kind == 1 || rank == 0), "an impossible data space");
  Dataspace space;
  space.kind = static_cast<Dataspace::Kind>(kind);
  for (std::uint64_t i = 0; i < rank; ++i) space.size.push_back(cursor.number(8));
  if ((flags & kHasLargest) != 0)
    for (const std::uint64_t size : space.size)
      space.may_grow = cursor.number(8) != size || space.may_grow;
  return space;
}

ChunkLayout decode_layout(Bytes body) {
  constexpr std::uint64_t kChunked = 2, kSingleIsFiltered = 0x02;
  constexpr std::uint64_t kSingleChunk = 1, kFixedArray = 3;
  Cursor cursor(body, "a layout");
  const std::uint64_t version = cursor.number(1);
  require(cursor.number(1) == kChunked, "is not chunked");
  require(version == 4, "has a layout of another version than this format has");
  const std::uint64_t flags = cursor.number(1), rank = cursor.number(1), width = cursor.number(1);
  require(rank <= 5 && width >= 1 && width <= 8 && (flags & ~kSingleIsFiltered) == 0,
          "has odd chunks");
  ChunkLayout layout;
  for (std::uint64_t i = 0; i < rank; ++i) layout.chunk.push_back(cursor.number(width));
  const std::uint64_t index = cursor.number(1);
  require(index == kSingleChunk || index == kFixedArray,
          "has an index of chunks that this format does not have");
  layout.is_single = index == kSingleChunk;
  if (layout.is_single) {
    require((flags & kSingleIsFiltered) != 0, "has filters other than fletcher32");
    layout.stored_bytes = cursor.number(8);
    layout.filter_mask = cursor.number(4);
  } else {
    cursor.take(1);  // bits of a page's number of entries; the array itself has it too
  }
  layout.address = cursor.number(8);
  return layout;
}

bool is_fletcher32_alone(Bytes filters) {
  constexpr std::uint64_t kFletcher32 = 3;
  Cursor cursor(filters, "a list of filters");
  return cursor.number(1) == 2 && cursor.number(1) == 1 && cursor.number(2) == kFletcher32;
}

Attribute decode_attribute(Bytes body) {
  Cursor cursor(body, "an attribute");
  require(cursor.number(1) == 3 && cursor.number(1) == 0,
          "an attribute of another version than this format has");
  const std::uint64_t name_size = cursor.number(2), type_size = cursor.number(2),
                      space_size = cursor.number(2);
  cursor.take(1);  // the name's character set
  Attribute attribute;
  attribute.name = unpad(cursor.take(name_size));
  const Bytes type = cursor.take(type_size), space = cursor.take(space_size);
  try {
    attribute.type = decode_datatype(type);
  } catch (const CacheError& error) {
    throw CacheError(concat("attribute ", attribute.name, " has ", error.what()));
  }
  attribute.space = decode_dataspace(space);
  attribute.value = cursor.take(cursor.left());
  return attribute;
}

}  // namespace coldframe::cache::hdf5
