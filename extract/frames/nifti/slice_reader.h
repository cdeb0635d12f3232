// Slices of a volume as images, gathered in one sequential pass over each time point.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "extract/frames/frame.h"
#include "extract/frames/nifti/nifti_header.h"
#include "extract/frames/nifti/volume_bytes.h"

namespace coldframe::frames {

// The layout of slices across one patient axis: columns run along the first of the other two axes
// (towards right or anterior), rows down along the second (towards posterior or inferior). nibabel
// and numpy lay them out alike by numpy.rot90 of as_closest_canonical(image)'s slice.
struct SliceGeometry {
  SliceGeometry(const NiftiHeader& header, int patient_axis);

  int file_axis = 2;        // that the slices are across
  std::int64_t slices = 1;  // along it
  bool flipped = false;     // slice 0 is the file's last
  std::int64_t width = 1, height = 1;
  std::array<std::int64_t, 3> step{};  // in pixels of the image, by file axis; 0 along file_axis
  std::int64_t origin = 0;             // the pixel of the file's first voxel
  std::array<double, 2> spacing_mm{};  // from row to row, from column to column
};

// All values of the file, unscaled, in its order: reads it once from beginning to end, or to where
// it is cut off. DataError when it is compressed and damaged or cut off.
void for_each_value(VolumeBytes& bytes, const NiftiHeader& header, const ValueBlock& visit);

// The given slices (ascending) of one time point as RGB images, each with Frame::finite. As many as
// fit 64 MiB (at least one) are gathered in one pass over that time point's bytes, however they lie
// in the file, and then handed over; the rest takes further passes. Only the parts of the file that
// hold them are read (a compressed file is inflated from the start of the time point).
void read_slices(VolumeBytes& bytes, const NiftiHeader& header, const SliceGeometry& geometry,
                 std::int64_t time, std::span<const std::int64_t> slices, const ValueRange& range,
                 const std::function<void(Image&&, double finite)>& sink);

}  // namespace coldframe::frames
