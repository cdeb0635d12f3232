// What stands before the values in a .npy file (numpy.lib.format, "NPY format", versions 1 to 3).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/bytes.h"
#include "common/numbers/dtype.h"

namespace coldframe {

constexpr std::string_view kNpySignature = "\x93NUMPY";

struct NpyHeader {
  std::string type;            // as NumPy spells it, "<f4"; empty for a record
  std::optional<DType> dtype;  // none: a type that DType lacks
  bool swapped = false;        // the bytes of its numbers are not in the machine's order
  bool fortran_order = false;
  std::string shape_text;           // between the parentheses
  std::vector<std::int64_t> shape;  // -1 for what is no length
  std::uint64_t data = 0;           // the offset of the values
};

// Reads the header of the array that begins at `begin`. Throws DataError, without the file's name,
// for another signature or version and for a header that is damaged or longer than 64 KiB.
NpyHeader read_npy_header(const ByteSource& file, std::uint64_t begin = 0);

// The header of version 1 of an array in C order. Its values follow, and begin at a multiple of 64.
std::string npy_header(DType type, const std::vector<std::uint64_t>& shape);

}  // namespace coldframe
