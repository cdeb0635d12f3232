// When frames and files were acquired.
#pragma once

#include <vector>

#include "extract/frames/dicom/data_set.h"

namespace coldframe::frames::dicom {

// Seconds since the first frame, one for each; NaN where the file does not tell, and where the
// frames differ in position alone (a volume). FrameTimeVector, FrameTime (PS3.3 C.7.6.5), the
// functional groups' FrameAcquisitionDateTime, FrameReferenceDateTime, temporal position offset or
// trigger delay (C.7.6.16.2); last the rates for display.
std::vector<double> frame_times(const DataSet& data, std::int64_t frames);

// Unix seconds; NaN when the file has no date. AcquisitionDateTime, else AcquisitionDate and -Time,
// else those of content, series, study. Without a zone (TimezoneOffsetFromUTC) it is taken as UTC.
double start_time(DcmItem& root);

}  // namespace coldframe::frames::dicom
