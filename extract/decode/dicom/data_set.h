// A DICOM data set read by DCMTK within limits, and DICOMDIR files.
#pragma once

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dcdatset.h>
#include <dcmtk/dcmdata/dcdeftag.h>
#include <dcmtk/dcmdata/dcistrma.h>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/bytes.h"
#include "extract/decode/frame.h"

namespace coldframe::frames::dicom {

// Input stream of a data set for DCMTK, which parses nested sequences recursively and keeps an
// object per element. It stops DCMTK before a malformed header exhausts the stack or memory.

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
  std::uint64_t read_ = 0;      // bytes delivered, excluding skipped ones
  std::uintptr_t stack_start_;  // where the caller's stack is
  std::vector<std::byte> buffer_;
  std::uint64_t buffer_start_ = 0;
  OFCondition status_;
};

class BytesStream : public DcmInputStream {
 public:
  BytesStream(std::shared_ptr<const ByteSource> bytes, std::uint64_t offset)
      : DcmInputStream(&producer_), producer_(std::move(bytes), offset) {}

  // Large values are read on demand.
  DcmInputStreamFactory* newFactory() const override;
  std::uint64_t position() const { return producer_.at(); }  // in the bytes

 private:
  BytesProducer producer_;
};

// A DICOM file's header through DCMTK, and the offset of its pixel data (PS3.5 sections 7 and A.4,
// PS3.10 section 7). Reads nothing after the start of the pixel data.

// A number that a header does not state.

// The coding of the frames (PS3.5 Annex A).
enum class Coding {
  kNative,
  kRle,
  kJpeg,  // baseline, extended, lossless
  kJpegLs,
  kJpeg2000,     // and High-Throughput JPEG 2000
  kVideo,        // MPEG-2, H.264, HEVC: one stream of all frames
  kUnsupported,  // JPEG XL, …
};

struct TransferSyntax {
  std::string uid;
  Coding coding = Coding::kNative;
  bool encapsulated = false, big_endian = false;
};

struct PixelElement {
  enum class Kind { kNone, kInteger, kFloat, kDouble };
  Kind kind = Kind::kNone;
  bool undefined_length = false;  // encapsulated: a sequence of fragments
  bool words = false;             // OW, which matters for 8-bit data in big endian
  std::uint64_t offset = 0, length = 0;
};

class DataSet {
 public:
  // DataError, without the file's name, when it is not a DICOM file or its header is damaged.
  explicit DataSet(std::shared_ptr<const ByteSource> bytes);

  DcmDataset& root() const { return *root_; }
  const TransferSyntax& syntax() const { return syntax_; }
  bool deflated() const { return deflated_; }
  const PixelElement& pixels() const { return pixels_; }
  // The file, or the inflated data set; `pixels().offset` counts in it.
  const std::shared_ptr<const ByteSource>& bytes() const { return bytes_; }
  // Contradictions between its parts and how they were resolved; without the file's name.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  void find_pixels(std::uint64_t position, bool implicit);

  std::shared_ptr<const ByteSource> bytes_;
  std::unique_ptr<DcmDataset> root_;
  TransferSyntax syntax_;
  PixelElement pixels_;
  bool deflated_ = false;
  std::vector<std::string> notes_;
};

// True if `head` starts like a DICOM file, with or without preamble.
bool looks_like_dicom(std::string_view head);

// The first value of an attribute as text without padding; "" when it is absent.
std::string text_of(DcmItem& item, const DcmTagKey& tag);
// All values of a numeric attribute, whatever its VR; skips values that are no number.
std::vector<double> numbers_of(DcmItem& item, const DcmTagKey& tag);
double number_of(DcmItem& item, const DcmTagKey& tag, double otherwise);
// An item of a sequence; null if absent.
DcmItem* item_of(DcmItem& item, const DcmTagKey& sequence, unsigned long index = 0);
unsigned long item_count(DcmItem& item, const DcmTagKey& sequence);
// The macros of an enhanced object's frames (PS3.3 C.7.6.16). The data set must outlive this.
class FunctionalGroups {
 public:
  explicit FunctionalGroups(DcmItem& root);
  std::size_t frames() const { return own_.size(); }
  // The frame's own item, else the shared one; null if neither exists.
  DcmItem* find(std::int64_t frame, const DcmTagKey& macro) const;

 private:
  std::vector<DcmItem*> own_;  // a sequence's own look-up takes time for every item before
  DcmItem* shared_ = nullptr;
};

// DICOMDIR: the list of the files of a CD or an export (PS3.3 F, PS3.10).

// True for a file named DICOMDIR, in any case.
bool is_directory_file(const std::filesystem::path& path);

// The files that it names, in its order, each once. DataError: it cannot be read, it names none, or
// it names one outside its folder.
std::vector<std::filesystem::path> read_directory(const std::filesystem::path& path);

}  // namespace coldframe::frames::dicom
