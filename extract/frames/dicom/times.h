// Finds when frames and files were acquired.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "extract/frames/dicom/data_set.h"

namespace coldframe::frames::dicom {

// The frames in the order of time: those of a series of volumes that is stored slice by slice are
// not. Frames of one time keep their order.
struct FrameTimes {
  std::vector<double> seconds;       // since the first frame, of each in its order; NaN if unknown
  std::vector<std::int64_t> stored;  // where each lies in the file
};

// Seconds are NaN where the file does not tell, and where the frames differ in position alone (a
// volume). FrameTimeVector, FrameTime (PS3.3 C.7.6.5), the functional groups'
// FrameAcquisitionDateTime, FrameReferenceDateTime, temporal position offset or trigger delay
// (C.7.6.16.2). The rates for display only where no functional group tells frames apart by time.
FrameTimes frame_times(const DataSet& data, std::int64_t frames);

inline constexpr double kDay = 86400;  // seconds

// The time at which an image was acquired, as well as its header tells.
struct Moment {
  double seconds = std::numeric_limits<double>::quiet_NaN();  // since 1970, NaN if unknown
  bool dated = true;      // false: there is no date; seconds since midnight
  bool acquired = false;  // stated by AcquisitionDateTime or -Time, which differ between images;
                          // else by the image's content, series or study
};

// AcquisitionDateTime, else AcquisitionTime, else ContentTime, each with its own date or, where it
// has been removed, with that of acquisition, content, series or study; else the beginning of
// acquisition day, content, series or study. Without a zone (TimezoneOffsetFromUTC) it is UTC.
Moment acquisition(DcmItem& root);

// Unix seconds; NaN when the file has no date.
double start_time(DcmItem& root);

}  // namespace coldframe::frames::dicom
