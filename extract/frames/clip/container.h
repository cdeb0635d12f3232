// Finds which container a clip is in, and what that says of its own length, before anything is
// decoded.
#pragma once

#include <string_view>

#include "common/files/bytes/byte_source.h"

namespace coldframe::frames {

// FFmpeg's name of the demuxer for a file that starts with `head`; null when it is no clip.
const char* clip_demuxer(std::string_view head);

// The same for a stream without a container, H.264 or HEVC, as DICOM files hold it.
const char* stream_demuxer(std::string_view head);

// DataError, without the file's name, when the file ends before its container does: GIF (trailer
// block), PNG (last chunk), AVI (RIFF size), MP4 and QuickTime (box sizes), Matroska and WebM
// (segment size). Formats that state no length (MPEG streams, Ogg) pass.
void check_container(const ByteSource& file);

// DataError as above when a chunk before an animated PNG's first frame is longer than the file:
// FFmpeg allocates what such a chunk claims to hold.
void check_png_header(const ByteSource& file);

}  // namespace coldframe::frames
