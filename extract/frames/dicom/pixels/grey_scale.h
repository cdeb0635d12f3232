// Turns a stored value into a grey level: the modality transformation (PS3.3 C.11.1), then the
// values of interest (VOI, PS3.3 C.11.2), then MONOCHROME1's inversion.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "extract/frames/dicom/data_set.h"
#include "extract/frames/dicom/pixels/lookup_table.h"
#include "extract/frames/dicom/pixels/pixel_layout.h"
#include "extract/frames/window.h"

namespace coldframe::frames::dicom {

struct Modality {
  double slope = 1, intercept = 0;
  std::shared_ptr<const LookupTable> table;  // takes the place of slope and intercept

  bool operator==(const Modality&) const = default;
  bool is_identity() const { return !table && slope == 1 && intercept == 0; }
  double apply(double stored) const {
    return table ? table->at(stored) : stored * slope + intercept;
  }
};

// The first of several windows or tables counts; a table comes before a window.
struct Voi {
  enum class Function { kLinear, kLinearExact, kSigmoid };
  Function function = Function::kLinear;
  double center = 0, width = 0;
  std::shared_ptr<const LookupTable> table;

  bool operator==(const Voi&) const = default;
  std::uint8_t apply(double value) const;
};

// The numbers of an item, without tables.
Modality read_rescale(DcmItem& item);
std::optional<Voi> read_window(DcmItem& item);

// Stored values that are no part of the image, but make it rectangular: PixelPaddingValue, to
// PixelPaddingRangeLimit where it is there (PS3.3 C.7.5.1.1.2), and their float kin.
struct Padding {
  double least = std::numeric_limits<double>::infinity(), greatest = -least;  // none

  bool holds(double stored) const { return stored >= least && stored <= greatest; }
};
Padding read_padding(DcmItem& root, const PixelLayout& layout);

// Shows a file's frames with the VOI of --window, else the file's (each frame's own where it has
// one). A file of at most 8 unsigned bits without either is shown as it is. Any other one is shown
// from the least to the greatest value of the exam (`wants_range`), as viewers do for an image.
// Padding and NaN are black and have no part in that range.
class GreyScale {
 public:
  GreyScale(const DataSet& data, const PixelLayout& layout, const Window& window);

  bool wants_range() const { return wants_range_; }
  void set_range(const ValueRange& range);
  bool is_padding(double stored) const { return padding_.holds(stored); }
  double value(std::int64_t frame, double stored) const { return modality(frame).apply(stored); }
  std::uint8_t level(std::int64_t frame, double stored) const;
  // True if two frames have the same levels for the same stored values.
  bool same(std::int64_t a, std::int64_t b) const {
    return modality(a) == modality(b) && voi(a) == voi(b);
  }

 private:
  const Modality& modality(std::int64_t frame) const {
    return modalities_[modalities_.size() == 1 ? 0 : static_cast<std::size_t>(frame)];
  }
  const std::optional<Voi>& voi(std::int64_t frame) const {
    return vois_[vois_.size() == 1 ? 0 : static_cast<std::size_t>(frame)];
  }

  std::vector<Modality> modalities_;      // one for all frames, or one each
  std::vector<std::optional<Voi>> vois_;  // likewise; nothing: as it is, or `range_`
  Padding padding_;
  std::optional<ValueRange> range_;
  double stored_greatest_ = 255;
  bool wants_range_ = false, inverted_ = false;
};

}  // namespace coldframe::frames::dicom
