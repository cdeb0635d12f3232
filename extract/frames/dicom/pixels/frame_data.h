// Finds each frame's bytes in the file and decodes them to samples (PS3.5 Annex A.4).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/files/bytes/byte_source.h"
#include "extract/frames/dicom/data_set.h"
#include "extract/frames/dicom/pixels/pixel_layout.h"
#include "extract/frames/source_file.h"

namespace coldframe::frames::dicom {

// One decoded frame: little-endian samples, pixel by pixel or plane by plane as `layout` says.
struct RawFrame {
  PixelLayout layout;  // the file's, as the decoder changed it (colour model, bytes per sample)
  std::string samples;
  std::string note = {};  // what its code says against the header, and which was taken
};

class FrameData {
 public:
  // There are as many frames as the pixel data holds, whatever the header states. DataError when
  // those are fewer, when the pixel data does not have the shape that the header states, or nobody
  // here decodes the transfer syntax. Of a file that is cut off, the frames that are whole can be
  // read; DataError when there is none.
  FrameData(const DataSet& data, const PixelLayout& layout);

  // As the header states it, with the frames and the chroma that are there.
  const PixelLayout& layout() const { return layout_; }
  bool deflated() const { return deflated_; }
  // Where the pixel data differs from what the header states; without the file's name.
  const std::vector<std::string>& notes() const { return notes_; }

  // `bytes` are the data set's. DataError when the frame is damaged.
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
  std::string fault_;  // of fragments that are cut off
  std::vector<std::string> notes_;
  Extent native_;                            // all frames, one behind the other
  std::vector<std::vector<Extent>> frames_;  // encapsulated: the fragments of each frame
};

// The number of frames that the file has: as its header states it where that is more than one, else
// what its pixel data holds, or 1 where that cannot be told.
std::int64_t held_frames(const DataSet& data);

// The parts of the file that hold the stream of a video (PS3.5 A.4.5 to A.4.9). DataError when
// there is none, or it is cut off.
std::vector<Extent> find_stream(const DataSet& data);

// The two decoders. `code` is one frame's whole code stream. DataError when it is damaged, or says
// otherwise than the header about size, samples or depth.
RawFrame decode_with_dcmtk(const TransferSyntax& syntax, const PixelLayout& layout,
                           std::string code);
RawFrame decode_jpeg2000(const PixelLayout& layout, std::string_view code);

}  // namespace coldframe::frames::dicom
