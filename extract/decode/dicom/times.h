// Determines the acquisition times of frames and files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "extract/decode/dicom/data_set.h"
#include "extract/decode/frame.h"

namespace coldframe::frames::dicom {

// A file's frames ordered by order_frames(); indistinguishable frames keep the file's order.
struct FrameTimes {
  std::vector<double> seconds;       // since the first frame, of each in its order; NaN if unknown
  std::vector<std::int64_t> stored;  // index of each in the file
  OrderBasis basis = {};
  std::string note = {};  // why the header's times were rejected
};

// FrameTimeVector or FrameTime, whichever FrameIncrementPointer names (PS3.3 C.7.6.5); else what
// the functional groups state of each frame (C.7.6.16.2): FrameAcquisitionDateTime,
// FrameReferenceDateTime or temporal position offset, temporal position index, trigger delay, and
// the plane's position. Display rates are used only if no functional group distinguishes frames.
FrameTimes frame_times(const DataSet& data, std::int64_t frames);

// Millimetres along the normal of `axes`, of rows and columns (PS3.3 C.7.6.2).
double along_normal(std::span<const double> place, std::span<const double> axes);

// Seconds from the previous frame to each frame, by the cine module; empty if not stated.
std::vector<double> cine_steps(DcmItem& root, std::int64_t frames);

inline constexpr std::size_t kGroupClocks = 3;

// A frame's metadata in functional groups; kNotStated if absent.
struct GroupFacts {
  // Seconds by FrameAcquisitionDateTime, FrameReferenceDateTime and temporal position offset.
  std::array<double, kGroupClocks> clocks{kNotStated, kNotStated, kNotStated};
  double trigger = kNotStated, temporal_position = kNotStated;  // as FrameFacts has them
  std::vector<double> plane;  // three coordinates of its place, six of its axes; or none
};

// Of each frame, as stored; empty without functional groups.
std::vector<GroupFacts> group_facts(const DataSet& data, std::int64_t frames);

// Uses the first clock that distinguishes some frames, among those that state a time for each;
// positions are along the common normal, else an index per plane.
FrameOrder order_groups(std::span<const GroupFacts> stated);

inline constexpr double kDay = 86400;  // seconds

// The best estimate of an image's acquisition time from its header.
struct ImageTime {
  double seconds = kNotStated;  // since 1970, NaN if unknown
  bool dated = true;            // false: no date; seconds since midnight
  bool acquired = false;  // stated by AcquisitionDateTime or -Time, which differ between images;
                          // else by the image's content, series or study
};

// AcquisitionDateTime, else AcquisitionTime, else ContentTime, each with its own date or, where it
// has been removed, with that of acquisition, content, series or study; else the beginning of
// acquisition day, content, series or study. Without a zone (TimezoneOffsetFromUTC) it is UTC.
ImageTime acquisition(DcmItem& root);

// ContentTime alone, likewise; kNotStated seconds without one.
ImageTime content(DcmItem& root);

// Unix seconds; NaN when the file has no date.
double start_time(DcmItem& root);

}  // namespace coldframe::frames::dicom
