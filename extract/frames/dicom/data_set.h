// A DICOM file's header through DCMTK, and where its pixel data lies (PS3.5 sections 7 and A.4,
// PS3.10 section 7). Nothing behind the start of the pixel data is read.
#pragma once

#include <dcmtk/config/osconfig.h>
#include <dcmtk/dcmdata/dcdatset.h>
#include <dcmtk/dcmdata/dcdeftag.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "common/files/bytes/byte_source.h"

namespace coldframe::frames::dicom {

// Stands for a number that a header does not state.
inline constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

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
  // What its parts say against one another, and which was taken; without the file's name.
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

// True if `head` starts as a DICOM file does, with or without its preamble.
bool looks_like_dicom(std::string_view head);

// The first value of an attribute as text without padding; "" when it is absent.
std::string text_of(DcmItem& item, const DcmTagKey& tag);
// All values of a numeric attribute, whatever its VR; those that are no number are left out.
std::vector<double> numbers_of(DcmItem& item, const DcmTagKey& tag);
double number_of(DcmItem& item, const DcmTagKey& tag, double otherwise);
// An item of a sequence; null when there is none.
DcmItem* item_of(DcmItem& item, const DcmTagKey& sequence, unsigned long index = 0);
unsigned long item_count(DcmItem& item, const DcmTagKey& sequence);
// The macros of an enhanced object's frames (PS3.3 C.7.6.16). The data set must outlive this.
class FunctionalGroups {
 public:
  explicit FunctionalGroups(DcmItem& root);
  std::size_t frames() const { return own_.size(); }
  // The frame's own item, else the shared one; null when there is neither.
  DcmItem* find(std::int64_t frame, const DcmTagKey& macro) const;

 private:
  std::vector<DcmItem*> own_;  // a sequence's own look-up takes time for every item before
  DcmItem* shared_ = nullptr;
};

}  // namespace coldframe::frames::dicom
