// A person's choices of how files become frames; every reader takes from them what concerns it.
#pragma once

#include <cstdint>
#include <limits>
#include <string>

#include "common/text/spelling.h"
#include "extract/frames/window.h"

namespace coldframe::frames {

// The slices of a volume that are read: [begin, end) in steps of `step`; end = −1: to the last one.
struct SliceRange {
  std::int64_t begin = 0, end = -1, step = 1;

  bool operator==(const SliceRange&) const = default;
};

// The rule by which the single-frame DICOM files of a folder become exams.
enum class DicomGrouping { kSeries, kStudy };

struct ReaderOptions {
  Window window;  // --window

  // Volumes, in RAS+ orientation: 0 = x (sagittal slices), 1 = y (coronal), 2 = z (axial).
  int axis = 2;       // --axis
  SliceRange slices;  // --slices; of a 4-D volume: these slices of every time point

  bool ignore_exif = false;  // --ignore-exif; else JPEG images are turned as their EXIF data states

  // Clips: what is shown of a picture.
  bool square_pixels = false;  // --square-pixels: as wide as the stream says that it is shown
  bool deinterlace = false;    // --deinterlace: the first field of each interlaced frame

  // Clips: those frames that can be read of one that is cut off count as all that there are.
  bool accept_broken_tail = false;  // --accept-broken-tail

  // Clips: frames outside these times, in seconds since the clip's first one, are not asked for and
  // need not be decoded.
  double from_s = -std::numeric_limits<double>::infinity();  // --start
  double until_s = std::numeric_limits<double>::infinity();  // --end

  // Clips: frames are counted without being decoded, and those that are cheap to decode stand for
  // the others. For a look before the job, never for the job itself.
  bool estimate = false;

  DicomGrouping grouping = DicomGrouping::kSeries;  // --group
  bool keep_patient_id = false;  // --keep-patient-id; else hashes of patients with `patient_salt`
  std::string patient_salt;      // --patient-salt
  EqualNumbers equal_numbers = EqualNumbers::kAsk;  // --equal-numbers: of patients
};

}  // namespace coldframe::frames
