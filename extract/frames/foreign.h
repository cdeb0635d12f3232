// Kinds of files that people have and that are not read, by their names.
#pragma once

#include "extract/frames/source_file.h"

namespace coldframe::frames {

struct ForeignKind {
  const char *name, *names;  // "a HEIC image", "HEIC images"
  const char* advice;        // "convert it to JPEG or PNG"
};

// Null for a file that looks like none of them. DataError when it cannot be read.
const ForeignKind* foreign_kind(const SourceFile& file);

// True for the voxels of an ANALYZE 7.5 header that lies beside.
bool is_analyze_voxels(const SourceFile& file);

}  // namespace coldframe::frames
