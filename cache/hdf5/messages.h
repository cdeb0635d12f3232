// Decodes the messages of an object header, as far as this format has them (HDF5 File Format
// Specification 3.0, IV.A.2). Every function throws CacheError without the object's name. Internal
// to cache/hdf5.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cache/hdf5/dataset.h"
#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/text/text.h"

namespace coldframe::cache::hdf5 {

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

}  // namespace coldframe::cache::hdf5
