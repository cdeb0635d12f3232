// DICOM files whose pixel data is the stream of a video (PS3.5 A.4.5 to A.4.9): the reader of clips
// decodes it, the header states patient, start and times.
#pragma once

#include <memory>

#include "extract/frames/dicom/data_set.h"
#include "extract/frames/source.h"

namespace coldframe::frames::dicom {

// Decodes the stream once to count its frames. DataError, which names the file: it is damaged, or
// its stream is none that the reader of clips knows.
std::unique_ptr<Source> open_video(const SourceFile& file, const DataSet& data,
                                   const ReaderOptions& options);

}  // namespace coldframe::frames::dicom
