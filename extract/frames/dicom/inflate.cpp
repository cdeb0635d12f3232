#include "extract/frames/dicom/inflate.h"

#include <zlib.h>

#include <array>
#include <span>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames::dicom {
namespace {

// Ends zlib's state on every way out.
struct Inflater {
  z_stream stream{};
  Inflater() {
    if (inflateInit2(&stream, -MAX_WBITS) != Z_OK) throw DataError("zlib cannot be started");
  }
  ~Inflater() { inflateEnd(&stream); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
};

}  // namespace

std::string inflate(const ByteSource& bytes, std::uint64_t offset, std::uint64_t limit) {
  Inflater inflater;
  std::array<Bytef, 65536> in{}, out{};
  std::string content;
  int status = Z_OK;
  while (status == Z_OK) {
    if (inflater.stream.avail_in == 0) {
      const std::size_t count = bytes.read_some(offset, std::as_writable_bytes(std::span(in)));
      offset += count;
      inflater.stream.next_in = in.data();
      inflater.stream.avail_in = static_cast<uInt>(count);
      if (count == 0) throw DataError("its deflated data set is truncated");
    }
    inflater.stream.next_out = out.data();
    inflater.stream.avail_out = static_cast<uInt>(out.size());
    status = ::inflate(&inflater.stream, Z_NO_FLUSH);
    content.append(reinterpret_cast<const char*>(out.data()),
                   out.size() - inflater.stream.avail_out);
    if (content.size() > limit) {
      throw DataError(concat("its deflated data set has more than ", human_bytes(limit)));
    }
  }
  if (status != Z_STREAM_END) throw DataError("its deflated data set is damaged");
  return content;
}

}  // namespace coldframe::frames::dicom
