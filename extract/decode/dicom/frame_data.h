// A DICOM image's pixel data: layout, frames, and decoding of compressed ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/files/bytes.h"
#include "extract/decode/dicom/data_set.h"
#include "extract/decode/source_file.h"

namespace coldframe::frames::dicom {

// The layout of a DICOM image's samples (PS3.3 C.7.6.3, the Image Pixel module).

enum class Photometric { kMonochrome1, kMonochrome2, kPalette, kRgb, kYbrFull, kYbrPartial };

// The pixels that share a chroma sample in uncompressed data: one, two in a row, or 2×2.
enum class Chroma { kOwn, kPairs, kSquares };

struct PixelLayout {
  int rows = 0, columns = 0, samples = 1;
  int bits_allocated = 8, bits_stored = 8, high_bit = 7;
  bool is_signed = false;
  bool planar = false;  // all red, then all green, then all blue
  PixelElement::Kind kind = PixelElement::Kind::kInteger;
  Photometric photometric = Photometric::kMonochrome2;
  Chroma chroma = Chroma::kOwn;
  std::int64_t frames = 0;  // as stated; 0: the header does not say

  std::uint64_t pixels() const { return static_cast<std::uint64_t>(rows) * columns; }
  bool is_grey() const {
    return photometric == Photometric::kMonochrome1 || photometric == Photometric::kMonochrome2;
  }
  // Bits of one uncompressed frame.
  std::uint64_t frame_bits() const {
    const std::uint64_t values = pixels() * samples;
    if (chroma == Chroma::kOwn) return values * bits_allocated;
    return (chroma == Chroma::kPairs ? values * 2 / 3 : values / 2) * bits_allocated;
  }
};

// DataError, without the file's name: no image, or an unsupported one.
PixelLayout read_layout(const DataSet& data);

// NumberOfFrames; 0 if it is absent, empty or 0. DataError for an invalid number.
std::int64_t stated_frames(DcmItem& root);

// Describes a data set that is no image, for messages: "a structured report", "a segmentation", …;
// "" for an image. Masks and dose grids have pixels, but are no images. kByClass ignores the
// modality: a file named explicitly counts as an image even if its modality is that of a document.
enum class Judge { kByClass, kByClassAndModality };
std::string describe_other_object(const DataSet& data, Judge judge);

// An image computed from other images.
bool is_parametric_map(const DataSet& data);

// Finds each frame's bytes in the file and decodes them to samples (PS3.5 Annex A.4).

// One decoded frame: little-endian samples, pixel by pixel or plane by plane as `layout` says.
struct RawFrame {
  PixelLayout layout;  // the file's, as the decoder changed it (colour model, bytes per sample)
  std::string samples;
  std::string note = {};  // contradictions of its code with the header, and their resolution
};

class FrameData {
 public:
  // The pixel data, not the header, determines the number of frames. DataError if it has fewer than
  // the header states or another shape, or if the transfer syntax is not supported. In a truncated
  // file, the complete frames are readable; DataError if there are none.
  FrameData(const DataSet& data, const PixelLayout& layout);

  // The header's layout, with the actual frames and chroma.
  const PixelLayout& layout() const { return layout_; }
  bool deflated() const { return deflated_; }
  // Differences between the pixel data and the header; without the file's name.
  const std::vector<std::string>& notes() const { return notes_; }

  // `bytes` are the data set's. DataError if the frame is damaged.
  RawFrame read(const ByteSource& bytes, std::int64_t frame) const;

 private:
  void find_native(const DataSet& data);
  void settle_chroma();
  void require_padding(const ByteSource& bytes, std::uint64_t excess) const;
  void note_frames(std::int64_t held);
  void find_fragments(const DataSet& data);
  void find_whole_frames(const ByteSource& bytes, const std::vector<Extent>& items,
                         const std::vector<std::uint64_t>& offsets);
  RawFrame read_native(const ByteSource& bytes, std::int64_t frame) const;

  PixelLayout layout_;
  TransferSyntax syntax_;
  bool words_ = false, deflated_ = false;
  std::string fault_;  // of truncated fragments
  std::vector<std::string> notes_;
  Extent native_;                            // all frames, contiguous
  std::vector<std::vector<Extent>> frames_;  // encapsulated: the fragments of each frame
};

// The number of frames of the file: the header's if greater than one, else that of its pixel data,
// or 1 if unknown.
std::int64_t held_frames(const DataSet& data);

// The extents of the file that hold a video's stream (PS3.5 A.4.5 to A.4.9). DataError if there is
// none or it is truncated.
std::vector<Extent> find_stream(const DataSet& data);

// The two decoders. `code` is one frame's whole code stream. DataError if it is damaged or
// contradicts the header about size, samples or depth.
RawFrame decode_with_dcmtk(const TransferSyntax& syntax, const PixelLayout& layout,
                           std::string code);
RawFrame decode_jpeg2000(const PixelLayout& layout, std::string_view code);

}  // namespace coldframe::frames::dicom
