// Finds when frames and files were acquired.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "extract/decode/dicom/data_set.h"
#include "extract/decode/frame.h"

namespace coldframe::frames::dicom {

// A file's frames in the order that order_frames() gives them; those that nothing tells apart keep
// the file's.
struct FrameTimes {
  std::vector<double> seconds;       // since the first frame, of each in its order; NaN if unknown
  std::vector<std::int64_t> stored;  // where each lies in the file
  OrderBasis basis = {};
  std::string note = {};  // why times that the header states were not taken
};

// FrameTimeVector or FrameTime, whichever FrameIncrementPointer names (PS3.3 C.7.6.5); else what
// the functional groups state of each frame (C.7.6.16.2): FrameAcquisitionDateTime,
// FrameReferenceDateTime or temporal position offset, temporal position index, trigger delay, and
// the plane's position. The rates for display only where no functional group tells frames apart.
FrameTimes frame_times(const DataSet& data, std::int64_t frames);

// Millimetres along the normal of `axes`, of rows and columns (PS3.3 C.7.6.2).
double along_normal(std::span<const double> place, std::span<const double> axes);

// Seconds from the frame before to each frame, by the cine module; empty where it does not say.
std::vector<double> cine_steps(DcmItem& root, std::int64_t frames);

inline constexpr std::size_t kGroupClocks = 3;

// What functional groups state of a frame; kNotStated where they state nothing.
struct GroupFacts {
  // Seconds by FrameAcquisitionDateTime, FrameReferenceDateTime and temporal position offset.
  std::array<double, kGroupClocks> clocks{kNotStated, kNotStated, kNotStated};
  double trigger = kNotStated, temporal_position = kNotStated;  // as FrameFacts has them
  std::vector<double> plane;  // three coordinates of its place, six of its axes; or none
};

// Of each frame, as stored; empty without functional groups.
std::vector<GroupFacts> group_facts(const DataSet& data, std::int64_t frames);

// By the first clock that tells some frames apart, of those that state a time of each; positions
// are along the common normal, or else a number for each plane.
FrameOrder order_groups(std::span<const GroupFacts> stated);

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

// ContentTime alone, likewise; kNotStated seconds without one.
Moment content(DcmItem& root);

// Unix seconds; NaN when the file has no date.
double start_time(DcmItem& root);

}  // namespace coldframe::frames::dicom
