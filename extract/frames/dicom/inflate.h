// Deflated data sets (PS3.5 A.5).
#pragma once

#include <cstdint>
#include <string>

#include "common/files/bytes/byte_source.h"

namespace coldframe::frames::dicom {

// Decompresses the raw deflate stream (RFC 1951) that starts at `offset`. DataError when it is
// damaged, or holds more than `limit` bytes.
std::string inflate(const ByteSource& bytes, std::uint64_t offset, std::uint64_t limit);

}  // namespace coldframe::frames::dicom
