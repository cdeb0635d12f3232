#include "cache/hdf5/file_reader.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/format/format.h"
#include "cache/hdf5/dataset.h"
#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {

// Decodes the messages of an object header, as far as this format has them (HDF5 File Format
// Specification 3.0, IV.A.2). Every function throws CacheError without the object's name. Internal
// to cache/hdf5.

using Bytes = std::span<const std::byte>;

struct RefuseAsMalformed {
  std::string_view what;
  [[noreturn]] void operator()(const BeyondEnd&) const {
    throw CacheError(concat("malformed HDF5: ", what, " ends too early"));
  }
};

// `what` names the structure in the errors; the text must outlive the cursor.
class Cursor : public ByteCursor<RefuseAsMalformed> {
 public:
  Cursor(Bytes bytes, std::string_view what)
      : ByteCursor(bytes, std::endian::little, {what}), what_(what) {}
  void expect(std::string_view signature) {
    if (text(signature.size()) != signature)
      throw CacheError(concat("malformed HDF5: ", what_, " without its signature"));
  }

 private:
  std::string_view what_;
};

inline constexpr std::size_t kChecksumBytes = 4;  // behind every block of metadata

struct Link {
  std::string name;
  bool is_hard = false;
  std::uint64_t address = 0;           // of the object header, when it is hard
  std::optional<std::uint64_t> order;  // of creation
};
Link decode_link(Bytes body);

struct Dataspace {
  enum class Kind { kScalar = 0, kSimple = 1, kNull = 2 };
  Kind kind = Kind::kScalar;
  std::vector<std::uint64_t> size;
  bool may_grow = false;
};
Dataspace decode_dataspace(Bytes body);

struct Datatype {
  Type type;
  std::size_t text_bytes;  // 0 unless it is a text
};
Datatype decode_datatype(Bytes body);

// The layout by which a dataset's chunks are found (IV.A.2.i, version 4).
struct ChunkLayout {
  std::vector<std::uint64_t> chunk;  // elements in each dimension, then bytes of an element
  bool is_single = false;            // one chunk, described here; else a fixed array at `address`
  std::uint64_t address = 0;
  std::uint64_t stored_bytes = 0, filter_mask = 0;  // of the single chunk
};
ChunkLayout decode_layout(Bytes body);

bool is_fletcher32_alone(Bytes filters);

struct Attribute {
  std::string name;
  Datatype type;
  Dataspace space;
  Bytes value;  // may be longer than the value
};
Attribute decode_attribute(Bytes body);

// Object headers of version 2 and their messages (HDF5 File Format Specification 3.0, IV.A.1.b).

inline constexpr std::uint64_t kNoAddress = ~std::uint64_t{0};

// Supported message types (IV.A.2), and those that are rejected by name.
enum class MessageKind : std::uint8_t {
  kNil = 0x00,
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kFillValueOld = 0x04,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kGroupInfo = 0x0a,
  kFilters = 0x0b,
  kAttribute = 0x0c,
  kContinuation = 0x10,
  kModificationTime = 0x12,
  kAttributeInfo = 0x15,
  kReferenceCount = 0x16,
};

struct Message {
  MessageKind kind;
  bool shared;  // its content lies elsewhere
  std::span<const std::byte> body;
};

struct ObjectHeader {
  std::vector<std::vector<std::byte>> blocks;  // what the messages point into
  std::vector<Message> messages;

  // Null when there is none. CacheError when there are several.
  const Message* find(MessageKind kind) const;
};

// Reads the headers of one file. All of them together may be no larger than the file and in no more
// blocks than a million, so that headers that point at each other come to an end.
class HeaderReader {
 public:
  HeaderReader(const ByteSource& store, Checksums checksums);
  ObjectHeader read(std::uint64_t address);  // CacheError

 private:
  std::vector<std::byte> block(std::uint64_t address, std::uint64_t size);

  const ByteSource& store_;
  const Checksums checksums_;
  std::uint64_t bytes_left_, blocks_left_;
};

// Bytes of the file, bounded before they are allocated. CacheError beyond its end.
std::vector<std::byte> read_block(const ByteSource& store, std::uint64_t address,
                                  std::uint64_t size);

// HDF5's own checksums, which are compared where no trailer vouches for a file.

// HDF5 stores Jenkins' lookup3 (initial value 0) of a block of metadata in the 4 bytes after it.
std::uint32_t lookup3(std::span<const std::byte> bytes);
// The last 4 bytes of a chunk hold Fletcher's checksum of the others.
std::uint32_t fletcher32(std::span<const std::byte> bytes);

// read_block() of metadata. CacheError where the checksum behind them is compared and another.
std::vector<std::byte> read_metadata_block(const ByteSource& store, std::uint64_t address,
                                           std::uint64_t size, Checksums checksums);
// CacheError unless the chunk has its checksum.
void check_chunk(const ByteSource& store, const Extent& chunk);

// Finds where the chunks of a dataset lie.

// The address of every chunk in order of its rows. Each has `layout.chunk[0]` rows, the last one
// padded, and fletcher32's checksum behind them. CacheError when one is missing, has another size
// or lies beyond the end of the file; its text begins with a verb, for the caller to name the
// dataset.
std::vector<std::uint64_t> chunk_addresses(const ByteSource& store, const ChunkLayout& layout,
                                           const DatasetSpec& spec, Checksums checksums);

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
    require(size > 0 && size <= kMaxText, concat("a text of ", size, " bytes"));
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
  require(length > 0 && length <= kMaxLinkName, "a link with an impossible name");
  const Bytes name = cursor.take(length);
  link.name.assign(reinterpret_cast<const char*>(name.data()), name.size());
  require(link.name.find('\0') == std::string::npos, "a link with an impossible name");
  if (link.is_hard) link.address = cursor.number(8);
  return link;
}

Dataspace decode_dataspace(Bytes body) {
  constexpr std::uint64_t kMaxRank = 32, kHasLargest = 0x01;
  Cursor cursor(body, "a data space");
  require(cursor.number(1) == 2, "a data space of another version than this format has");
  const std::uint64_t rank = cursor.number(1), flags = cursor.number(1), kind = cursor.number(1);
  require(kind <= 2 && rank <= kMaxRank && (kind == 1 || rank == 0), "an impossible data space");
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

namespace {

constexpr std::uint64_t kMaxBlocks = 1u << 20;
constexpr std::size_t kSignatureBytes = 4;

// Bits of the header's flags.
constexpr unsigned kSizeWidth = 0x03, kTracksOrder = 0x04, kHasPhaseChange = 0x10, kHasTimes = 0x20;
constexpr unsigned kMessageIsShared = 0x02;
// Signature, version, flags, times, phase change, size of the first block.
constexpr std::size_t kMaxPrefix = 4 + 1 + 1 + 16 + 4 + 8;

bool is_known(MessageKind kind) {
  switch (kind) {
    case MessageKind::kNil:
    case MessageKind::kDataspace:
    case MessageKind::kLinkInfo:
    case MessageKind::kDatatype:
    case MessageKind::kFillValueOld:
    case MessageKind::kFillValue:
    case MessageKind::kLink:
    case MessageKind::kExternalFiles:
    case MessageKind::kLayout:
    case MessageKind::kGroupInfo:
    case MessageKind::kFilters:
    case MessageKind::kAttribute:
    case MessageKind::kContinuation:
    case MessageKind::kModificationTime:
    case MessageKind::kAttributeInfo:
    case MessageKind::kReferenceCount:
      return true;
  }
  return false;
}

struct Continuation {
  std::uint64_t address, size;
};

// Appends the messages of one block; fewer bytes than a message's head are a gap at the end.
void read_messages(std::span<const std::byte> bytes, unsigned flags, ObjectHeader& header,
                   std::vector<Continuation>& more) {
  Cursor cursor(bytes, "an object header");
  const std::size_t head = (flags & kTracksOrder) != 0 ? 6 : 4;
  while (cursor.left() >= head) {
    Message message{};
    message.kind = static_cast<MessageKind>(cursor.number(1));
    const std::uint64_t size = cursor.number(2);
    message.shared = (cursor.number(1) & kMessageIsShared) != 0;
    if (head == 6) cursor.take(2);
    message.body = cursor.take(size);
    if (!is_known(message.kind))
      throw CacheError(concat("an object header has a message of kind ",
                              static_cast<unsigned>(message.kind),
                              ", which this format does not have"));
    if (message.kind == MessageKind::kContinuation) {
      Cursor body(message.body, "a continuation");
      const std::uint64_t address = body.number(8);
      more.push_back({address, body.number(8)});
    } else if (message.kind != MessageKind::kNil) {
      header.messages.push_back(message);
    }
  }
}

}  // namespace

std::vector<std::byte> read_block(const ByteSource& store, std::uint64_t address,
                                  std::uint64_t size) {
  if (address > store.size() || size > store.size() - address)
    throw CacheError("malformed HDF5: an address beyond the end of the file");
  std::vector<std::byte> bytes(size);
  store.read_at(address, bytes);
  return bytes;
}

const Message* ObjectHeader::find(MessageKind kind) const {
  const Message* found = nullptr;
  for (const Message& message : messages) {
    if (message.kind != kind) continue;
    if (found != nullptr)
      throw CacheError(concat("malformed HDF5: two messages of kind ", static_cast<unsigned>(kind),
                              " in one object header"));
    found = &message;
  }
  return found;
}

HeaderReader::HeaderReader(const ByteSource& store, Checksums checksums)
    : store_(store), checksums_(checksums), bytes_left_(store.size()), blocks_left_(kMaxBlocks) {}

std::vector<std::byte> HeaderReader::block(std::uint64_t address, std::uint64_t size) {
  if (size > bytes_left_ || blocks_left_ == 0)
    throw CacheError("malformed HDF5: the object headers are larger than the file");
  bytes_left_ -= size;
  --blocks_left_;
  return read_block(store_, address, size);
}

ObjectHeader HeaderReader::read(std::uint64_t address) {
  const std::uint64_t end = store_.size();
  if (address >= end) throw CacheError("malformed HDF5: an address beyond the end of the file");
  const auto prefix =
      read_block(store_, address, std::min<std::uint64_t>(kMaxPrefix, end - address));
  Cursor cursor(prefix, "an object header");
  cursor.expect("OHDR");
  if (cursor.number(1) != 2)
    throw CacheError("an object header of another version than this format has");
  const auto flags = static_cast<unsigned>(cursor.number(1));
  if ((flags & kHasTimes) != 0) cursor.take(16);
  if ((flags & kHasPhaseChange) != 0) cursor.take(4);
  const std::uint64_t size = cursor.number(std::size_t{1} << (flags & kSizeWidth));

  ObjectHeader header;
  std::vector<Continuation> more;
  // The checksum behind it must be there, compared or not.
  const std::uint64_t with_checksum = std::min(size, end) + kChecksumBytes;
  const std::uint64_t head = prefix.size() - cursor.left();
  if (checksums_ == Checksums::kCompared)
    read_metadata_block(store_, address, head + std::min(size, end), checksums_);
  header.blocks.push_back(block(address + head, with_checksum));
  read_messages(std::span(header.blocks.back()).first(with_checksum - kChecksumBytes), flags,
                header, more);
  for (std::size_t i = 0; i < more.size(); ++i) {
    header.blocks.push_back(block(more[i].address, more[i].size));
    const std::span<const std::byte> bytes(header.blocks.back());
    Cursor inside(bytes, "a continued object header");
    inside.expect("OCHK");
    if (inside.left() < kChecksumBytes) inside.take(kChecksumBytes);
    if (checksums_ == Checksums::kCompared)
      read_metadata_block(store_, more[i].address, more[i].size - kChecksumBytes, checksums_);
    read_messages(bytes.subspan(kSignatureBytes, inside.left() - kChecksumBytes), flags, header,
                  more);
  }
  return header;
}

namespace {

std::uint32_t byte_at(std::span<const std::byte> bytes, std::size_t at) {
  return std::to_integer<std::uint32_t>(bytes[at]);
}

// Little-endian, of at most 4 bytes.
std::uint32_t word_at(std::span<const std::byte> bytes, std::size_t at) {
  std::uint32_t word = 0;
  for (std::size_t i = 0; i < 4 && at + i < bytes.size(); ++i)
    word |= byte_at(bytes, at + i) << 8 * i;
  return word;
}

void require_checksum(std::span<const std::byte> with_checksum, auto checksum) {
  const std::size_t size = with_checksum.size() - kChecksumBytes;
  if (word_at(with_checksum, size) != checksum(with_checksum.first(size)))
    throw CacheError("damaged: one of HDF5's own checksums does not match");
}

}  // namespace

// Bob Jenkins, lookup3.c, hashlittle().
std::uint32_t lookup3(std::span<const std::byte> bytes) {
  std::uint32_t a = 0xdeadbeef + static_cast<std::uint32_t>(bytes.size()), b = a, c = a;
  for (; bytes.size() > 12; bytes = bytes.subspan(12)) {
    a += word_at(bytes, 0), b += word_at(bytes, 4), c += word_at(bytes, 8);
    a -= c, a ^= std::rotl(c, 4), c += b;
    b -= a, b ^= std::rotl(a, 6), a += c;
    c -= b, c ^= std::rotl(b, 8), b += a;
    a -= c, a ^= std::rotl(c, 16), c += b;
    b -= a, b ^= std::rotl(a, 19), a += c;
    c -= b, c ^= std::rotl(b, 4), b += a;
  }
  if (bytes.empty()) return c;
  a += word_at(bytes, 0), b += word_at(bytes, 4), c += word_at(bytes, 8);
  c ^= b, c -= std::rotl(b, 14);
  a ^= c, a -= std::rotl(c, 11);
  b ^= a, b -= std::rotl(a, 25);
  c ^= b, c -= std::rotl(b, 16);
  a ^= c, a -= std::rotl(c, 4);
  b ^= a, b -= std::rotl(a, 14);
  c ^= b, c -= std::rotl(b, 24);
  return c;
}

// Sums of big-endian 16-bit words modulo 65535. A sum of 0 is stored as 65535, unless all words are
// 0.
std::uint32_t fletcher32(std::span<const std::byte> bytes) {
  constexpr std::size_t kWords = 360;  // whose sums 32 bits hold
  const auto fold = [](std::uint32_t sum) { return (sum & 0xffff) + (sum >> 16); };
  std::uint32_t sum = 0, of_sums = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    for (std::size_t i = 0; i < kWords && at < bytes.size(); ++i, at += 2) {
      sum += byte_at(bytes, at) << 8 | (at + 1 < bytes.size() ? byte_at(bytes, at + 1) : 0);
      of_sums += sum;
    }
    sum = fold(sum), of_sums = fold(of_sums);
  }
  return fold(of_sums) << 16 | fold(sum);
}

std::vector<std::byte> read_metadata_block(const ByteSource& store, std::uint64_t address,
                                           std::uint64_t size, Checksums checksums) {
  if (checksums == Checksums::kIgnored) return read_block(store, address, size);
  std::vector<std::byte> bytes = read_block(store, address, size + kChecksumBytes);
  require_checksum(bytes, lookup3);
  bytes.resize(size);
  return bytes;
}

void check_chunk(const ByteSource& store, const Extent& chunk) {
  require_checksum(read_block(store, chunk.begin, chunk.end - chunk.begin), fletcher32);
}

namespace {

struct Chunk {
  std::uint64_t address, bytes, filter_mask;
};

// A fixed array of filtered chunks (HDF5 File Format Specification 3.0, VII.C). Beyond a number of
// entries it is cut into pages, each with a checksum of its own.
class FixedArray {
 public:
  FixedArray(const ByteSource& store, std::uint64_t address, std::uint64_t entries,
             Checksums checksums);
  std::vector<Chunk> read() const;

 private:
  void read_entries(Cursor& cursor, std::uint64_t count, std::vector<Chunk>& chunks) const;
  std::vector<Chunk> read_pages(std::uint64_t page_entries) const;

  // Signature, version, client, address of the header.
  static constexpr std::uint64_t kBlockPrefix = 4 + 1 + 1 + 8;

  const ByteSource& store_;
  const Checksums checksums_;
  std::uint64_t entries_, entry_bytes_ = 0, page_bits_ = 0, block_ = 0;
};

FixedArray::FixedArray(const ByteSource& store, std::uint64_t address, std::uint64_t entries,
                       Checksums checksums)
    : store_(store), checksums_(checksums), entries_(entries) {
  const auto bytes = read_metadata_block(store, address, 4 + 1 + 1 + 1 + 1 + 8 + 8, checksums);
  Cursor cursor(bytes, "an index of chunks");
  cursor.expect("FAHD");
  const std::uint64_t version = cursor.number(1), client = cursor.number(1);
  entry_bytes_ = cursor.number(1);
  page_bits_ = cursor.number(1);
  const std::uint64_t there = cursor.number(8);
  block_ = cursor.number(8);
  // An entry: address, bytes of the chunk in as many bytes as that needs, filter mask.
  if (version != 0 || client != 1 || entry_bytes_ < 8 + 1 + 4 || entry_bytes_ > 8 + 8 + 4 ||
      page_bits_ > 32)
    throw CacheError("has an index of chunks that this format does not have");
  if (there != entries) throw CacheError("has missing chunks");
}

void FixedArray::read_entries(Cursor& cursor, std::uint64_t count,
                              std::vector<Chunk>& chunks) const {
  for (std::uint64_t i = 0; i < count; ++i) {
    Chunk chunk{};
    chunk.address = cursor.number(8);
    chunk.bytes = cursor.number(entry_bytes_ - 12);
    chunk.filter_mask = cursor.number(4);
    chunks.push_back(chunk);
  }
}

std::vector<Chunk> FixedArray::read_pages(std::uint64_t page_entries) const {
  const std::uint64_t pages = (entries_ + page_entries - 1) / page_entries;
  const auto prefix =
      read_metadata_block(store_, block_, kBlockPrefix + (pages + 7) / 8, checksums_);
  Cursor head(prefix, "an index of chunks");
  head.expect("FADB");
  head.take(kBlockPrefix - 4);
  const auto written = head.take(head.left());  // a bit a page, the first in the highest place
  std::uint64_t address = block_ + prefix.size() + kChecksumBytes;
  std::vector<Chunk> chunks;
  for (std::uint64_t page = 0; page < pages; ++page) {
    if ((std::to_integer<unsigned>(written[page / 8]) & (0x80u >> page % 8)) == 0)
      throw CacheError("has missing chunks");
    const std::uint64_t count = std::min(page_entries, entries_ - page * page_entries);
    const auto bytes = read_metadata_block(store_, address, count * entry_bytes_, checksums_);
    Cursor cursor(bytes, "an index of chunks");
    read_entries(cursor, count, chunks);
    address += bytes.size() + kChecksumBytes;
  }
  return chunks;
}

std::vector<Chunk> FixedArray::read() const {
  const std::uint64_t page_entries = std::uint64_t{1} << page_bits_;
  if (entries_ > page_entries) return read_pages(page_entries);
  const auto bytes =
      read_metadata_block(store_, block_, kBlockPrefix + entries_ * entry_bytes_, checksums_);
  Cursor cursor(bytes, "an index of chunks");
  cursor.expect("FADB");
  cursor.take(kBlockPrefix - 4);
  std::vector<Chunk> chunks;
  read_entries(cursor, entries_, chunks);
  return chunks;
}

}  // namespace

std::vector<std::uint64_t> chunk_addresses(const ByteSource& store, const ChunkLayout& layout,
                                           const DatasetSpec& spec, Checksums checksums) {
  const std::uint64_t rows = layout.chunk[0];
  const std::uint64_t count = (spec.rows + rows - 1) / rows;
  if (count == 0) return {};
  if (layout.address == kNoAddress || (layout.is_single && count != 1))
    throw CacheError("has missing chunks");
  const std::vector<Chunk> chunks =
      layout.is_single
          ? std::vector<Chunk>{{layout.address, layout.stored_bytes, layout.filter_mask}}
          : FixedArray(store, layout.address, count, checksums).read();
  const std::uint64_t bytes = rows * spec.row_bytes() + kFletcherBytes;
  std::vector<std::uint64_t> addresses;
  for (const Chunk& chunk : chunks) {
    if (chunk.address == kNoAddress || chunk.bytes != bytes || chunk.filter_mask != 0)
      throw CacheError("has missing chunks");
    if (chunk.address > store.size() || bytes > store.size() - chunk.address)
      throw CacheError("has chunks beyond the end of the file");
    addresses.push_back(chunk.address);
  }
  return addresses;
}

namespace {

constexpr std::size_t kMaxLinks = 1u << 16;
constexpr std::size_t kMaxDimensions = 4;      // frames, height, width, colours
constexpr std::uint64_t kMaxRow = 1ull << 30;  // of a dataset without rows

// The superblock of version 3 (II.A). Returns the address of the root group.
std::uint64_t read_superblock(const ByteSource& store, Checksums checksums) {
  const auto bytes = read_metadata_block(store, 0, 44, checksums);
  Cursor cursor(bytes, "the superblock");
  cursor.expect("\x89HDF\r\n\x1a\n");
  require(cursor.number(1) == 3 && cursor.number(1) == 8 && cursor.number(1) == 8,
          "another superblock than Coldframe writes");
  require(cursor.number(1) == 0, "marked as being written by another program");
  require(cursor.number(8) == 0, "content that does not start at the beginning of the file");
  require(cursor.number(8) == kNoAddress,
          "a superblock extension, which this format does not have");
  require(cursor.number(8) == store.size(), "another end of file than the superblock says");
  return cursor.number(8);
}

// Both kinds of object may have attributes in a heap and say so here; ours never do.
void require_plain(const ObjectHeader& header, const std::string& path) {
  for (const MessageKind kind : {MessageKind::kLinkInfo, MessageKind::kAttributeInfo}) {
    const Message* info = header.find(kind);
    if (info == nullptr) continue;
    // Version, flags, [largest creation index], address of the heap.
    Cursor cursor(info->body, "an object header");
    require(cursor.number(1) == 0, "an object header of another version than this format has");
    const bool has_index = (cursor.number(1) & 1) != 0;
    if (has_index) cursor.take(kind == MessageKind::kLinkInfo ? 8 : 2);
    require(cursor.number(8) == kNoAddress, path + " keeps links or attributes in a heap");
  }
  if (const Message* count = header.find(MessageKind::kReferenceCount)) {
    Cursor cursor(count->body, "a reference count");
    cursor.take(1);
    require(cursor.number(4) == 1, path + " has several names");
  }
}

// The links of a group in order of creation, and where each name is among them.
struct Group {
  std::vector<Link> links;
  std::unordered_map<std::string, std::size_t> places;
};

Group read_links(const ObjectHeader& header, const std::string& path) {
  Group group;
  std::vector<Link>& links = group.links;
  for (const Message& message : header.messages) {
    if (message.kind != MessageKind::kLink) continue;
    require(!message.shared, path + " shares a link");
    links.push_back(decode_link(message.body));
    require(links.size() <= kMaxLinks, path + " has too many links");
  }
  const bool ordered = std::all_of(links.begin(), links.end(),
                                   [](const Link& link) { return link.order.has_value(); });
  std::sort(links.begin(), links.end(), [ordered](const Link& a, const Link& b) {
    return ordered && a.order != b.order ? a.order < b.order : a.name < b.name;
  });
  for (std::size_t i = 0; i < links.size(); ++i)
    require(group.places.emplace(links[i].name, i).second, path + " has two links of one name");
  return group;
}

DatasetSpec read_shape(const ObjectHeader& header, const std::string& path,
                       std::uint64_t file_size) {
  const Message* type = header.find(MessageKind::kDatatype);
  const Message* space = header.find(MessageKind::kDataspace);
  require(type != nullptr && space != nullptr, path + " is not a dataset");
  require(!type->shared, path + " shares a named type");
  require(!space->shared, path + " shares a data space");
  DatasetSpec spec;
  try {
    const Datatype known = decode_datatype(type->body);
    spec.type = known.type;
    spec.text_bytes = known.text_bytes;
  } catch (const CacheError& error) {
    throw CacheError(concat(path, " has ", error.what()));
  }
  const Dataspace shape = decode_dataspace(space->body);
  require(shape.kind == Dataspace::Kind::kSimple, path + " is not an array");
  require(shape.size.size() >= 1 && shape.size.size() <= kMaxDimensions,
          concat(path, " has ", shape.size.size(), " dimensions"));
  require(!shape.may_grow, path + " may grow");
  spec.rows = shape.size[0];
  spec.row_shape.assign(shape.size.begin() + 1, shape.size.end());
  const std::uint64_t most = spec.rows == 0 ? kMaxRow : file_size;
  std::uint64_t row = element_bytes(spec.type, spec.text_bytes);
  for (const std::uint64_t size : spec.row_shape) {
    require(size > 0, path + " has rows without columns");
    require(size <= most / row, path + " claims more columns than fit in the file");
    row *= size;
  }
  require(spec.rows <= file_size / row, path + " claims more rows than fit in the file");
  return spec;
}

ChunkLayout read_storage(const ObjectHeader& header, const std::string& path,
                         const DatasetSpec& spec) {
  const Message& message = *header.find(MessageKind::kLayout);
  require(!message.shared, path + " shares a layout");
  require(header.find(MessageKind::kExternalFiles) == nullptr, path + " lies in an external file");
  ChunkLayout layout;
  try {
    layout = decode_layout(message.body);
  } catch (const CacheError& error) {
    throw CacheError(concat(path, " ", error.what()));
  }
  const Message* filters = header.find(MessageKind::kFilters);
  require(filters != nullptr && !filters->shared && is_fletcher32_alone(filters->body),
          path + " has filters other than fletcher32");
  const std::size_t rank = 1 + spec.row_shape.size();
  const std::vector<std::uint64_t>& chunk = layout.chunk;
  require(chunk.size() == rank + 1 && chunk[0] >= 1 &&
              chunk[0] <= std::max<std::uint64_t>(1, spec.rows) &&
              std::equal(spec.row_shape.begin(), spec.row_shape.end(), chunk.begin() + 1) &&
              chunk[rank] == element_bytes(spec.type, spec.text_bytes),
          path + " has odd chunks");
  return layout;
}

}  // namespace

void require(bool condition, const std::string& what) {
  if (!condition) throw CacheError(what);
}

std::string unpad(std::span<const std::byte> field) {
  const char* text = reinterpret_cast<const char*>(field.data());
  std::size_t length = field.size();
  while (length > 0 && text[length - 1] == '\0') --length;
  return {text, length};
}

struct DatasetReader::State {
  const ByteSource* store = nullptr;
  std::string path;
  DatasetSpec spec;
  std::uint64_t chunk_rows = 1;
  std::vector<std::uint64_t> chunks;  // addresses
};

DatasetReader::DatasetReader(std::shared_ptr<const State> state) : state_(std::move(state)) {}

const DatasetSpec& DatasetReader::spec() const {
  return state_->spec;
}

std::vector<Extent> DatasetReader::chunks() const {
  const std::uint64_t bytes = state_->chunk_rows * state_->spec.row_bytes() + kFletcherBytes;
  std::vector<Extent> extents;
  for (const std::uint64_t address : state_->chunks) extents.push_back({address, address + bytes});
  return extents;
}

void DatasetReader::read_rows(std::uint64_t first, std::uint64_t count,
                              std::span<std::byte> destination) const {
  const DatasetSpec& spec = state_->spec;
  const std::uint64_t row_bytes = spec.row_bytes(), chunk_rows = state_->chunk_rows;
  require(
      first <= spec.rows && count <= spec.rows - first && destination.size() == count * row_bytes,
      state_->path + ": rows outside the dataset were asked for");
  while (count > 0) {
    const std::uint64_t skipped = first % chunk_rows;
    const std::uint64_t rows = std::min(count, chunk_rows - skipped);
    state_->store->read_at(state_->chunks[first / chunk_rows] + skipped * row_bytes,
                           destination.first(rows * row_bytes));
    destination = destination.subspan(rows * row_bytes);
    first += rows;
    count -= rows;
  }
}

struct FileReader::State {
  State(const ByteSource& bytes, Checksums which)
      : store(bytes), checksums(which), headers(bytes, which) {}

  const ByteSource& store;
  const Checksums checksums;
  HeaderReader headers;
  ObjectHeader root;
  std::map<std::string, Group> groups;                   // those looked into, by their paths
  std::unordered_map<std::uint64_t, std::string> paths;  // of the objects, by their addresses
  std::map<std::string, DatasetReader> datasets;
  std::uint64_t bytes_left = 0;  // that further datasets can hold

  const Group& group(const std::string& path);
  ObjectHeader open(const std::string& path);
  std::shared_ptr<DatasetReader::State> open_dataset(const std::string& path);
};

ObjectHeader FileReader::State::open(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == std::string::npos ? "/" : path.substr(0, slash);
  const std::string name = slash == std::string::npos ? path : path.substr(slash + 1);
  const Group& siblings = group(parent);
  const auto place = siblings.places.find(name);
  require(place != siblings.places.end(), path + " is missing");
  const Link& link = siblings.links[place->second];
  require(link.is_hard, path + " is a soft or an external link");
  require(paths.emplace(link.address, path).first->second == path, path + " has several names");
  ObjectHeader header = headers.read(link.address);
  require_plain(header, path);
  return header;
}

const Group& FileReader::State::group(const std::string& path) {
  const auto known = groups.find(path);
  if (known != groups.end()) return known->second;
  const ObjectHeader header = open(path);
  require(header.find(MessageKind::kLayout) == nullptr &&
              header.find(MessageKind::kDatatype) == nullptr &&
              header.find(MessageKind::kLinkInfo) != nullptr,
          path + " is not a group");
  return groups.emplace(path, read_links(header, path)).first->second;
}

FileReader::FileReader(const ByteSource& store, Checksums checksums)
    : state_(std::make_unique<State>(store, checksums)) {
  const std::uint64_t address = read_superblock(store, checksums);
  state_->bytes_left = store.size();
  state_->root = state_->headers.read(address);
  require_plain(state_->root, "/");
  state_->paths.emplace(address, "/");
  state_->groups.emplace("/", read_links(state_->root, "/"));
}

FileReader::~FileReader() = default;

std::vector<std::string> FileReader::names(const std::string& group) const {
  std::vector<std::string> names;
  for (const Link& link : state_->group(group).links) names.push_back(link.name);
  return names;
}

std::shared_ptr<DatasetReader::State> FileReader::State::open_dataset(const std::string& path) {
  const ObjectHeader header = open(path);
  require(header.find(MessageKind::kLayout) != nullptr, path + " is not a dataset");
  auto dataset = std::make_shared<DatasetReader::State>();
  dataset->store = &store;
  dataset->path = path;
  dataset->spec = read_shape(header, path, store.size());
  const ChunkLayout layout = read_storage(header, path, dataset->spec);
  dataset->chunk_rows = layout.chunk[0];
  try {
    dataset->chunks = chunk_addresses(store, layout, dataset->spec, checksums);
  } catch (const CacheError& error) {
    throw CacheError(concat(path, " ", error.what()));
  }
  const std::uint64_t bytes = dataset->spec.rows * dataset->spec.row_bytes();
  require(bytes <= bytes_left, path + " shares its chunks with other datasets");
  bytes_left -= bytes;
  return dataset;
}

DatasetReader FileReader::dataset(const std::string& path) const {
  const auto known = state_->datasets.find(path);
  if (known != state_->datasets.end()) return known->second;
  return state_->datasets.emplace(path, DatasetReader(state_->open_dataset(path))).first->second;
}

void FileReader::check_chunks() const {
  for (const auto& [path, dataset] : state_->datasets)
    for (const Extent& chunk : dataset.chunks()) check_chunk(state_->store, chunk);
}

namespace {

std::optional<Attribute> find_attribute(const ObjectHeader& root, const std::string& name) {
  for (const Message& message : root.messages) {
    if (message.kind != MessageKind::kAttribute) continue;
    require(!message.shared, "a shared attribute, which this format does not have");
    Attribute attribute = decode_attribute(message.body);
    if (attribute.name == name) return attribute;
  }
  return std::nullopt;
}

Attribute require_attribute(const ObjectHeader& root, const std::string& name) {
  std::optional<Attribute> attribute = find_attribute(root, name);
  require(attribute.has_value(), "attribute " + name + " is missing");
  return *std::move(attribute);
}

// The fields of a text attribute, one after another.
std::vector<std::string> read_fields(const Attribute& attribute, std::uint64_t count) {
  std::vector<std::string> texts;
  Cursor value(attribute.value, "an attribute");
  for (std::uint64_t i = 0; i < count; ++i)
    texts.push_back(unpad(value.take(attribute.type.text_bytes)));
  return texts;
}

}  // namespace

bool FileReader::has_attribute(const std::string& name) const {
  return find_attribute(state_->root, name).has_value();
}

std::int64_t FileReader::integer_attribute(const std::string& name) const {
  const Attribute attribute = require_attribute(state_->root, name);
  require(attribute.type.type == DType::kInt64 && attribute.space.kind == Dataspace::Kind::kScalar,
          "attribute " + name + " is not an int64");
  return static_cast<std::int64_t>(Cursor(attribute.value, "an attribute").number(8));
}

std::string FileReader::text_attribute(const std::string& name) const {
  const Attribute attribute = require_attribute(state_->root, name);
  require(attribute.type.type == kText && attribute.space.kind == Dataspace::Kind::kScalar,
          "attribute " + name + " is not a text");
  return read_fields(attribute, 1).front();
}

std::vector<std::string> FileReader::texts_attribute(const std::string& name) const {
  const Attribute attribute = require_attribute(state_->root, name);
  require(attribute.type.type == kText && attribute.space.size.size() == 1,
          "attribute " + name + " is not a list of texts");
  return read_fields(attribute, attribute.space.size[0]);
}

}  // namespace coldframe::cache::hdf5
