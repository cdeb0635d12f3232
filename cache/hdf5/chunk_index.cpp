#include "cache/hdf5/chunk_index.h"

#include <algorithm>

#include "cache/format/format.h"
#include "cache/hdf5/checksums.h"
#include "cache/hdf5/object_header.h"

namespace coldframe::cache::hdf5 {
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

}  // namespace coldframe::cache::hdf5
