// The value types between the readers and the preprocessing.
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

// No reader decodes a frame that is larger.
inline constexpr std::int64_t kMaxSide = 65535, kMaxPixels = std::int64_t{1} << 28;

// 8-bit RGB, rows without padding: rgb[(y * width + x) * 3 + channel].
struct Image {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

// A rectangle in pixels of a frame; its right and bottom edges are outside.
struct Rect {
  int x = 0, y = 0, width = 0, height = 0;

  bool operator==(const Rect&) const = default;
};

// A length along an edge of a frame: a share of the edge, rounded down, and pixels.
struct CropLength {
  int pixels = 0;  // may be negative beside a share
  double percent = 0;

  int of(int edge) const { return static_cast<int>(edge * percent / 100) + pixels; }
  bool operator==(const CropLength&) const = default;
};

// The rule for which part of a frame is kept: --crop and the manifest's column `crop`.
struct CropRule {
  enum class Kind {
    kNone,   // all of it
    kFixed,  // what `edges` say
    kAuto    // what the file states as the image proper, else what preprocess/auto_crop.h finds
  };
  Kind kind = Kind::kNone;
  std::array<CropLength, 4> edges = {};  // x, y, width, height

  // kFixed: in a frame of this size; may reach beyond it.
  Rect rect_in(int width, int height) const {
    return {edges[0].of(width), edges[1].of(height), edges[2].of(width), edges[3].of(height)};
  }

  bool operator==(const CropRule&) const = default;
};

inline constexpr double kUnknownSpacing = std::numeric_limits<double>::quiet_NaN();

struct Frame {
  std::int64_t index = 0;                                    // position in its source
  double time_s = std::numeric_limits<double>::quiet_NaN();  // seconds since the source's first
                                                             // frame, NaN if unknown
  Image pixels;
  // Millimetres from row to row and from column to column, NaN if unknown.
  std::array<double, 2> spacing_mm{kUnknownSpacing, kUnknownSpacing};
  // The part that holds the image proper, where the file states it (DICOM ultrasound regions).
  std::optional<Rect> region = std::nullopt;
  // The share of its values that are finite numbers. NaN is shown black, an infinity as the least
  // or the greatest value is.
  double finite = 1;
  std::string fault = {};  // why it is lost, though those behind it are not; "" where it is there
};

// The one place that decides in which order an exam's frames come and when each was taken, whatever
// kind of file states it. Readers hand over facts.

inline constexpr double kNotStated = std::numeric_limits<double>::quiet_NaN();

// What is stated of one frame, or of one file of a frame; kNotStated where nothing is.
struct FrameFacts {
  double temporal_position = kNotStated;  // 1, 2, …: which moment, but not when it was
  double time = kNotStated;               // seconds on a clock that all share: when it was acquired
  double trigger = kNotStated;   // seconds since an event that comes again, such as a heartbeat
  double made = kNotStated;      // seconds on a clock that all share: when its content was made
  double position = kNotStated;  // millimetres along the slices' normal
  double number = kNotStated;    // as somebody counted them: an instance's number, a page
};

// What an exam's order and times rest on, for people: "trigger time, then place" and "trigger
// time".
struct OrderBasis {
  std::string order = {}, times = {};  // "" for times that are unknown
  // Nothing but the files' names, or their places in a list of names, tells the order.
  bool names_alone = false;
  // It is neither the order that the input has nor one by acquisition time, place or number: the
  // cache says so in the column kOrderColumn.
  bool unusual = false;

  bool operator==(const OrderBasis&) const = default;
};
// Of files that nothing but their names puts in order.
inline OrderBasis by_names() {
  return {.order = "file names", .names_alone = true};
}

inline constexpr const char* kAcquisitionTime = "acquisition time";
inline constexpr const char* kOrderColumn = "frame_order";
inline constexpr const char* kFileOrder =
    "the file";  // OrderBasis::order of frames as they are stored

struct FrameOrder {
  std::vector<std::size_t> order;  // of the facts
  std::vector<double> seconds;     // since the first, in that order; NaN where unknown
  OrderBasis basis;                // `order` is "" where the facts tell nothing
};

// Frames at places that all differ are slices of a volume: in the order of place, without times.
// Else what tells frames of one place apart comes first, then place, then the number:
// 1. acquisition times that all differ and do not contradict temporal positions;
// 2. temporal positions; frames of one have the earliest time among them;
// 3. trigger times that all differ;
// 4. acquisition or trigger times, or where all are at one place times of content, that tell some
//    apart; and acquisition times that tell places apart.
// `one_stack` is false where positions are of several stacks: they break ties alone.
// `clock` is what people call FrameFacts::time. Facts that tell nothing keep their order.
FrameOrder order_frames(std::span<const FrameFacts> facts, bool one_stack = true,
                        const char* clock = kAcquisitionTime);

}  // namespace coldframe::frames
