// A volume as an encoder is shown it: oriented, at a spacing, within a window. It is computed part
// by part and is never in memory as a whole.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "extract/decode/volume.h"
#include "extract/decode/window.h"
#include "extract/preprocess/volume/blocks.h"

namespace coldframe::preprocess {

// Where the voxels of the resampled volume lie in the file's, as MONAI's Orientation and Spacing
// (diagonal=False, scale_extent=False) lay them out: axes are the file's, permuted and reversed;
// along an axis of n voxels at s mm there are N = round((n − 1) · s / wanted + 1) at the wanted
// spacing. The first voxels coincide, or, where axes are not quite at right angles, as a turned
// volume's in float32 often are, the places n / 2 and N / 2 (compute_shape_offset). A spacing that
// is the wanted one to 0.001 mm (to 1 % if it is below 0.1 mm) stays as it is.
class VolumeGrid {
 public:
  // DataError: axes of the file are not at right angles and it is to be resampled, or the result
  // would have more than 2^40 voxels.
  VolumeGrid(const frames::VolumeGeometry& file, const VolumeRule& rule);

  struct Axis {
    std::size_t of_file = 0;  // which axis of the file
    bool is_reversed = false;
    std::int64_t file_size = 0;
    double first = 0, step = 1;        // the grid's voxel 0, and to its next one, in the file's
    std::int64_t begin = 0, size = 0;  // of the part that crop() left
    double spacing_mm = 0;
  };
  const Axis& axis(std::size_t number) const { return axes_[number]; }
  Size3 size() const { return {axes_[0].size, axes_[1].size, axes_[2].size}; }

  // The place of a voxel (or between voxels) in the patient.
  frames::Point at_mm(const frames::Point& voxel) const;

  // Leaves these voxels.
  void crop(const Size3& begin, const Size3& size);

 private:
  bool first_voxels_coincide() const;

  frames::VolumeGeometry file_;
  std::array<Axis, 3> axes_;
};

// The part [begin, begin + size) of the grid's voxels, the last axis the fastest in `out`: values
// interpolated linearly between the file's eight nearest voxels, then brought to 0…1 by `range`.
// Voxels outside of the grid, and NaN, are 0, the window's lower end.
void resample(const frames::Volume& volume, const VolumeGrid& grid, const frames::ValueRange& range,
              const Size3& begin, const Size3& size, std::span<float> out);

// Crops the grid to the smallest box that holds all voxels above the window's lower end (MONAI's
// CropForeground, after ScaleIntensityRange). DataError: there is none.
void crop_to_body(const frames::Volume& volume, const frames::ValueRange& range, VolumeGrid& grid);

// The range of a window of the kinds kFixed and kPercentiles (of all of the file's finite values).
// DataError: none is finite.
frames::ValueRange range_of(const frames::Volume& volume, const frames::Window& window);

}  // namespace coldframe::preprocess
