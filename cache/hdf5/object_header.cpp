#include "cache/hdf5/object_header.h"

#include "cache/hdf5/checksums.h"
#include "cache/hdf5/messages.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {
namespace {

constexpr std::uint64_t kMostBlocks = 1u << 20;
constexpr std::size_t kSignatureBytes = 4;

// Bits of the header's flags.
constexpr unsigned kSizeWidth = 0x03, kTracksOrder = 0x04, kHasPhaseChange = 0x10, kHasTimes = 0x20;
constexpr unsigned kMessageIsShared = 0x02;
// Signature, version, flags, times, phase change, size of the first block.
constexpr std::size_t kLongestPrefix = 4 + 1 + 1 + 16 + 4 + 8;

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
    : store_(store), checksums_(checksums), bytes_left_(store.size()), blocks_left_(kMostBlocks) {}

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
      read_block(store_, address, std::min<std::uint64_t>(kLongestPrefix, end - address));
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

}  // namespace coldframe::cache::hdf5
