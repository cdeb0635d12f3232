// Finds each frame's bytes in the file and decodes them to samples (PS3.5 Annex A.4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/files/bytes/byte_source.h"
#include "extract/frames/dicom/data_set.h"
#include "extract/frames/dicom/pixels/pixel_layout.h"

namespace coldframe::frames::dicom {

struct Extent {
  std::uint64_t offset = 0, length = 0;
};

// One decoded frame: little-endian samples, pixel by pixel or plane by plane as `layout` says.
struct RawFrame {
  PixelLayout layout;  // the file's, as the decoder changed it (colour model, bytes per sample)
  std::string samples;
};

class FrameData {
 public:
  // DataError when the pixel data is not as long as the header states, fragments are missing, or
  // nobody here decodes the transfer syntax. Of a file that is cut off, the frames that are whole
  // can be read; DataError when there is none.
  FrameData(const DataSet& data, const PixelLayout& layout);

  bool deflated() const { return deflated_; }

  // `bytes` are the data set's. DataError when the frame is damaged.
  RawFrame read(const ByteSource& bytes, std::int64_t frame) const;

 private:
  void find_native(const DataSet& data);
  void find_fragments(const DataSet& data);
  void find_whole_frames(const ByteSource& bytes, const std::vector<Extent>& items,
                         const std::vector<std::uint64_t>& offsets);
  RawFrame read_native(const ByteSource& bytes, std::int64_t frame) const;

  PixelLayout layout_;
  TransferSyntax syntax_;
  bool words_ = false, deflated_ = false;
  std::string fault_;                        // of fragments that are cut off
  Extent native_;                            // all frames, one behind the other
  std::vector<std::vector<Extent>> frames_;  // encapsulated: the fragments of each frame
};

// The two decoders. `code` is one frame's whole code stream. DataError when it is damaged, or says
// otherwise than the header about size, samples or depth.
RawFrame decode_with_dcmtk(const TransferSyntax& syntax, const PixelLayout& layout,
                           std::string code);
RawFrame decode_jpeg2000(const PixelLayout& layout, std::string_view code);

}  // namespace coldframe::frames::dicom
