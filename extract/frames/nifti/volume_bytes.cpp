#include "extract/frames/nifti/volume_bytes.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::frames {
namespace {

constexpr std::size_t kStreamBytes = std::size_t{1} << 16;
constexpr std::uint64_t kMaxInflation = 1032;  // of deflate: 258 bytes for 2 bits
constexpr int kGzipWindow = 15 + 16;           // zlib: the largest window, gzip's wrapper

bool starts_as_gzip(const ByteSource& source, std::uint64_t offset) {
  std::array<std::byte, 3> head{};
  return source.read_some(offset, head) == 3 && head[0] == std::byte{0x1f} &&
         head[1] == std::byte{0x8b} && head[2] == std::byte{8};
}

// A z_stream with the place that it has reached.
struct Inflater {
  z_stream stream{};
  std::uint64_t in = 0, out = 0;  // compressed bytes taken, bytes given
  bool at_end = false;

  Inflater() {
    if (inflateInit2(&stream, kGzipWindow) != Z_OK) throw std::bad_alloc();
  }
  Inflater(Inflater& other) : in(other.in), out(other.out), at_end(other.at_end) {
    if (inflateCopy(&stream, &other.stream) != Z_OK) throw std::bad_alloc();
  }
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

// Goes forward only; back means from the mark, or from the beginning.
class GzipStream {
 public:
  explicit GzipStream(const ByteSource& source) : source_(source), input_(kStreamBytes) {}

  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes);
  void mark(std::uint64_t offset);
  void finish(std::uint64_t end);

 private:
  void go_to(std::uint64_t offset);
  void restart(std::uint64_t offset);
  std::size_t inflate_some(std::span<std::byte> bytes);
  void fill();

  const ByteSource& source_;
  std::vector<std::byte> input_;
  std::unique_ptr<Inflater> now_, mark_;
};

void GzipStream::restart(std::uint64_t offset) {
  if (mark_ && mark_->out <= offset) {
    now_ = std::make_unique<Inflater>(*mark_);
  } else {
    now_ = std::make_unique<Inflater>();
  }
  now_->stream.avail_in = 0;
}

void GzipStream::fill() {
  const std::size_t count = source_.read_some(now_->in, input_);
  if (count == 0) throw DataError("it is truncated: its gzip data has no end");
  now_->stream.next_in = reinterpret_cast<Bytef*>(input_.data());
  now_->stream.avail_in = static_cast<uInt>(count);
}

std::size_t GzipStream::inflate_some(std::span<std::byte> bytes) {
  if (now_->at_end) return 0;
  z_stream& stream = now_->stream;
  if (stream.avail_in == 0) fill();
  const uInt before = stream.avail_in;
  stream.next_out = reinterpret_cast<Bytef*>(bytes.data());
  stream.avail_out = static_cast<uInt>(std::min(bytes.size(), std::size_t{1} << 30));
  const uInt room = stream.avail_out;
  const int status = inflate(&stream, Z_NO_FLUSH);
  now_->in += before - stream.avail_in;
  now_->out += room - stream.avail_out;
  if (status == Z_STREAM_END) {
    // Several members in a row are one content (RFC 1952, section 2.2).
    now_->at_end = !starts_as_gzip(source_, now_->in);
    if (!now_->at_end) inflateReset(&stream);
  } else if (status != Z_OK) {
    throw DataError(concat("its gzip data is damaged at byte ", now_->in));
  }
  return room - stream.avail_out;
}

void GzipStream::go_to(std::uint64_t offset) {
  if (!now_ || offset < now_->out) restart(offset);
  std::vector<std::byte> dropped(kStreamBytes);
  while (now_->out < offset && !now_->at_end) {
    inflate_some(
        std::span(dropped).first(std::min<std::uint64_t>(kStreamBytes, offset - now_->out)));
  }
}

std::size_t GzipStream::read_some(std::uint64_t offset, std::span<std::byte> bytes) {
  go_to(offset);
  if (now_->out != offset) return 0;
  std::size_t count = 0;
  while (count < bytes.size() && !now_->at_end) count += inflate_some(bytes.subspan(count));
  return count;
}

void GzipStream::mark(std::uint64_t offset) {
  go_to(offset);
  if (now_->out == offset) mark_ = std::make_unique<Inflater>(*now_);
}

void GzipStream::finish(std::uint64_t end) {
  constexpr std::uint64_t kMaxTail = 1 << 20;
  if (!now_ || now_->out != end) return;
  std::vector<std::byte> dropped(kStreamBytes);
  while (!now_->at_end && now_->out - end < kMaxTail) inflate_some(dropped);
}

VolumeBytes::VolumeBytes(std::shared_ptr<const ByteSource> source) : source_(std::move(source)) {
  if (starts_as_gzip(*source_, 0)) gzip_ = std::make_unique<GzipStream>(*source_);
}

VolumeBytes::~VolumeBytes() = default;

std::uint64_t VolumeBytes::size_limit() const {
  const std::uint64_t size = source_->size();
  if (gzip_ == nullptr) return size;
  return size > UINT64_MAX / kMaxInflation ? UINT64_MAX : size * kMaxInflation;
}

std::size_t VolumeBytes::read_some(std::uint64_t offset, std::span<std::byte> bytes) {
  return gzip_ != nullptr ? gzip_->read_some(offset, bytes) : source_->read_some(offset, bytes);
}

void VolumeBytes::read_at(std::uint64_t offset, std::span<std::byte> bytes) {
  const std::size_t count = read_some(offset, bytes);
  if (count < bytes.size()) {
    throw DataError(concat("it is truncated: its content ends at byte ", offset + count,
                           " of at least ", offset + bytes.size()));
  }
}

void VolumeBytes::mark(std::uint64_t offset) {
  if (gzip_ != nullptr) gzip_->mark(offset);
}

void VolumeBytes::finish(std::uint64_t end) {
  if (gzip_ != nullptr) gzip_->finish(end);
}

}  // namespace coldframe::frames
