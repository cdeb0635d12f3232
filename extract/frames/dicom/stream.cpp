#include "extract/frames/dicom/stream.h"

#include <dcmtk/dcmdata/dcerror.h>

#include <algorithm>
#include <cstring>

namespace coldframe::frames::dicom {
namespace {

constexpr std::size_t kBufferBytes = 16384;
constexpr std::uint64_t kMaxStackBytes = 512 * 1024;
constexpr std::uint64_t kMaxHeaderBytes = 64ull << 20;

std::uintptr_t stack_address() {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

class BytesStreamFactory : public DcmInputStreamFactory {
 public:
  BytesStreamFactory(std::shared_ptr<const ByteSource> bytes, std::uint64_t offset)
      : bytes_(std::move(bytes)), offset_(offset) {}
  DcmInputStream* create() const override { return new BytesStream(bytes_, offset_); }
  DcmInputStreamFactory* clone() const override { return new BytesStreamFactory(*this); }
  DcmInputStreamFactoryType ident() const override { return DFT_DcmInputFileStreamFactory; }

 private:
  std::shared_ptr<const ByteSource> bytes_;
  std::uint64_t offset_;
};

}  // namespace

BytesProducer::BytesProducer(std::shared_ptr<const ByteSource> bytes, std::uint64_t offset)
    : bytes_(std::move(bytes)),
      at_(std::min(offset, bytes_->size())),
      stack_start_(stack_address()),
      status_(EC_Normal) {}

void BytesProducer::require_bounds(std::uint64_t count) {
  read_ += count;
  const std::uintptr_t here = stack_address();
  const auto depth = here > stack_start_ ? here - stack_start_ : stack_start_ - here;
  if (depth > kMaxStackBytes || read_ > kMaxHeaderBytes) status_ = EC_InvalidStream;
}

std::size_t BytesProducer::copy(std::span<std::byte> out) {
  if (out.size() >= kBufferBytes) return bytes_->read_some(at_, out);
  if (at_ < buffer_start_ || at_ + out.size() > buffer_start_ + buffer_.size()) {
    buffer_start_ = at_;
    buffer_.resize(kBufferBytes);
    buffer_.resize(bytes_->read_some(at_, buffer_));
  }
  const std::uint64_t from = at_ - buffer_start_;
  const std::size_t count = std::min<std::size_t>(out.size(), buffer_.size() - from);
  std::memcpy(out.data(), buffer_.data() + from, count);
  return count;
}

offile_off_t BytesProducer::read(void* buffer, offile_off_t count) {
  if (status_.bad() || buffer == nullptr || count <= 0) return 0;
  require_bounds(static_cast<std::uint64_t>(count));
  if (status_.bad()) return 0;
  const std::size_t done = copy({static_cast<std::byte*>(buffer), static_cast<std::size_t>(count)});
  at_ += done;
  return static_cast<offile_off_t>(done);
}

offile_off_t BytesProducer::skip(offile_off_t count) {
  if (status_.bad() || count <= 0) return 0;
  const offile_off_t done = std::min(count, avail());
  at_ += static_cast<std::uint64_t>(done);
  return done;
}

void BytesProducer::putback(offile_off_t count) {
  if (status_.bad() || count < 0) return;
  if (static_cast<std::uint64_t>(count) > at_) {
    status_ = EC_PutbackFailed;
  } else {
    at_ -= static_cast<std::uint64_t>(count);
  }
}

DcmInputStreamFactory* BytesStream::newFactory() const {
  return new BytesStreamFactory(producer_.bytes(), producer_.at());
}

}  // namespace coldframe::frames::dicom
