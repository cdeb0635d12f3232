// DCMTK reads a data set from here. It stops DCMTK, which parses nested sequences by recursion and
// keeps an object for every element, before a malformed header exhausts the stack or the memory.
#pragma once

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dcistrma.h>

#include <memory>
#include <vector>

#include "common/files/bytes/byte_source.h"

namespace coldframe::frames::dicom {

class BytesProducer : public DcmProducer {
 public:
  BytesProducer(std::shared_ptr<const ByteSource> bytes, std::uint64_t offset);

  OFBool good() const override { return status_.good(); }
  OFCondition status() const override { return status_; }
  OFBool eos() override { return at_ >= bytes_->size(); }
  offile_off_t avail() override { return static_cast<offile_off_t>(bytes_->size() - at_); }
  offile_off_t read(void* buffer, offile_off_t count) override;
  offile_off_t skip(offile_off_t count) override;
  void putback(offile_off_t count) override;

  const std::shared_ptr<const ByteSource>& bytes() const { return bytes_; }
  std::uint64_t at() const { return at_; }

 private:
  void require_bounds(std::uint64_t count);
  std::size_t copy(std::span<std::byte> out);

  std::shared_ptr<const ByteSource> bytes_;
  std::uint64_t at_;
  std::uint64_t read_ = 0;      // bytes handed out, not those skipped
  std::uintptr_t stack_start_;  // where the caller's stack is
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_start_ = 0;
  OFCondition status_;
};

class BytesStream : public DcmInputStream {
 public:
  BytesStream(std::shared_ptr<const ByteSource> bytes, std::uint64_t offset)
      : DcmInputStream(&producer_), producer_(std::move(bytes), offset) {}

  // Large values stay where they are until somebody asks for them.
  DcmInputStreamFactory* newFactory() const override;
  std::uint64_t position() const { return producer_.at(); }  // in the bytes

 private:
  BytesProducer producer_;
};

}  // namespace coldframe::frames::dicom
