#include "extract/frames/dicom/bytes.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/text/text.h"

namespace coldframe::frames::dicom {
namespace {

class FileBytes : public Bytes {
 public:
  explicit FileBytes(const std::filesystem::path& path) : file_(path) {}
  std::uint64_t size() const override { return file_.size(); }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const override {
    return offset >= file_.size() ? 0 : file_.read_some(offset, out);
  }

 private:
  InputFile file_;
};

class MemoryBytes : public Bytes {
 public:
  explicit MemoryBytes(std::string content) : content_(std::move(content)) {}
  std::uint64_t size() const override { return content_.size(); }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> out) const override {
    if (offset >= content_.size()) return 0;
    const std::size_t count = std::min<std::uint64_t>(out.size(), content_.size() - offset);
    std::memcpy(out.data(), content_.data() + offset, count);
    return count;
  }

 private:
  std::string content_;
};

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

std::string Bytes::read(std::uint64_t offset, std::uint64_t count) const {
  if (offset > size() || size() - offset < count) {
    throw DataError(concat("it is truncated: it ends at byte ", size(), ", and ", count,
                           " bytes are expected from byte ", offset, " on"));
  }
  std::string content(count, '\0');
  content.resize(read_some(offset, std::as_writable_bytes(std::span(content))));
  if (content.size() != count) throw DataError("it became shorter while it was read");
  return content;
}

std::shared_ptr<const Bytes> bytes_of_file(const std::filesystem::path& path) {
  return std::make_shared<FileBytes>(path);
}

std::shared_ptr<const Bytes> bytes_in_memory(std::string content) {
  return std::make_shared<MemoryBytes>(std::move(content));
}

std::string inflate(const Bytes& bytes, std::uint64_t offset, std::uint64_t limit) {
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
