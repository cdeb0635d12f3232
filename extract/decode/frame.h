// Value types passed from the readers to the preprocessing.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace coldframe::frames {

// What neither a file nor the input states: a time, a spacing, a position. NaN.
inline constexpr double kNotStated = std::numeric_limits<double>::quiet_NaN();

// Readers reject larger frames.
inline constexpr std::int64_t kMaxSide = 65535, kMaxPixels = std::int64_t{1} << 28;

// 8-bit RGB, rows without padding: rgb[(y * width + x) * 3 + channel].
struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

// A rectangle in pixels of a frame; right and bottom edges are exclusive.
struct Rect {
  int x = 0, y = 0, width = 0, height = 0;

  bool operator==(const Rect&) const = default;
};

// A length along an edge of a frame: a percentage of the edge, rounded down, plus pixels.
struct CropLength {
  int pixels = 0;  // may be negative if `percent` is set
  double percent = 0;

  int of(int edge) const { return static_cast<int>(edge * percent / 100) + pixels; }
  bool operator==(const CropLength&) const = default;
};

// Which part of a frame to keep: --crop and the manifest's column `crop`.
struct CropRule {
  enum class Kind {
    kNone,   // all of it
    kFixed,  // the rectangle `edges`
    kAuto    // the image region that the file states, else the one that preprocess/auto_crop.h
             // detects
  };
  Kind kind = Kind::kNone;
  std::array<CropLength, 4> edges = {};  // x, y, width, height

  // kFixed: in a frame of this size; may reach beyond it.
  Rect rect_in(int width, int height) const {
    return {edges[0].of(width), edges[1].of(height), edges[2].of(width), edges[3].of(height)};
  }

  bool operator==(const CropRule&) const = default;
};

struct Frame {
  std::int64_t index = 0;      // position in its source
  double time_s = kNotStated;  // seconds since the source's first frame
  Image pixels;
  // Millimetres from row to row and from column to column.
  std::array<double, 2> spacing_mm{kNotStated, kNotStated};
  // The image region, if the file states it (DICOM ultrasound regions).
  std::optional<Rect> region = std::nullopt;
  // Fraction of its values that are finite. NaN becomes black; infinities become the min or max
  // value.
  double finite = 1;
  // Why this frame is unreadable while later ones are readable; "" if it was read.
  std::string fault = {};
};

// Decides, for all file formats, the order of an exam's frames and their acquisition times. Readers
// only supply the facts.

// Metadata of one frame or of a single-frame file; kNotStated if absent.
struct FrameFacts {
  double temporal_position = kNotStated;  // 1, 2, …: index of the time point, without its time
  double time = kNotStated;               // acquisition time: seconds on a clock common to all
  double trigger = kNotStated;            // seconds since a recurring event, such as a heartbeat
  double made = kNotStated;               // content creation time: seconds on a clock common to all
  double position = kNotStated;           // millimetres along the slices' normal
  double number = kNotStated;             // ordinal: instance number, page
};

// The basis of an exam's order and times, for display: "trigger time, then place" and "trigger
// time".
struct OrderBasis {
  std::string order = {}, times = {};  // "" if times are unknown
  // Only the file names, or their positions in a list of names, determine the order.
  bool names_alone = false;
  // The order is neither the input's nor by acquisition time, position or number: the cache records
  // it in the column kOrderColumn.
  bool unusual = false;

  bool operator==(const OrderBasis&) const = default;
};
// For files that only their names put in order.
inline OrderBasis by_names() {
  return {.order = "file names", .names_alone = true};
}

inline constexpr const char* kAcquisitionTime = "acquisition time";
inline constexpr const char* kOrderColumn = "frame_order";
inline constexpr const char* kFileOrder =
    "the file";  // OrderBasis::order of frames in storage order

struct FrameOrder {
  std::vector<std::size_t> order;  // indices of the facts
  std::vector<double> seconds;     // since the first, in that order; NaN if unknown
  OrderBasis basis;                // `order` is "" if the facts determine none
};

// Frames at pairwise distinct positions are slices of a volume: ordered by position, without times.
// Otherwise, sorts by the first criterion that distinguishes frames at the same position, then by
// position, then by number:
// 1. acquisition times that all differ and do not contradict temporal positions;
// 2. temporal positions; frames that share one get the earliest of their times;
// 3. trigger times that all differ;
// 4. acquisition or trigger times (or content times if all frames are at one position) that
// distinguish some frames; and acquisition times that distinguish positions.
// `one_stack` is false if positions belong to several stacks: they then only break ties. `clock` is
// the displayed name of FrameFacts::time. Facts that determine no order keep theirs.
FrameOrder order_frames(std::span<const FrameFacts> facts, bool one_stack = true,
                        const char* clock = kAcquisitionTime);

}  // namespace coldframe::frames
