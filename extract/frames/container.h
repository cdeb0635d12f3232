// What a clip's container says of its own length, checked before anything is decoded.
#pragma once

#include "common/file.h"

namespace coldframe::frames {

// DataError, without the file's name, when the file ends before its container does: GIF (trailer
// block), AVI (RIFF size), MP4 and QuickTime (box sizes), Matroska and WebM (segment size). Formats
// that state no length (MPEG streams, Ogg) pass.
void check_container(const InputFile& file);

}  // namespace coldframe::frames
