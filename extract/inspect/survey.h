// Looks at frames of every exam before a job: sizes, times, burned-in text.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "extract/decode/frame.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"
#include "extract/preprocess/auto_crop.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract::dry_run {

// Assesses the quality of an exam's times.

enum class TimingKind { kUnknown, kPartlyKnown, kSingle, kConstant, kUneven };

struct Timing {
  TimingKind kind = TimingKind::kUnknown;
  double span_s = std::numeric_limits<double>::quiet_NaN();  // of the known times
  // Median interval between adjacent frames at different times.
  double interval_s = std::numeric_limits<double>::quiet_NaN();
  std::size_t at_once = 1;                    // frames at each time, if equal for all
  std::size_t duplicate = 0, decreasing = 0;  // neighbours that are
};

// Times in frame order, NaN if unknown. Intervals are constant if each is within 2 % or 1.5 ms
// (containers round to milliseconds) of their median; intervals of 0 are ignored if every time has
// equally many frames (slices of a volume), else they are uneven.
Timing describe_times(std::span<const double> times_s);

// Burned-in text, scales and traces: fine bright strokes that are static while the image moves.
// They can predict a label (a hospital's logo, a device's screen) and are therefore reported.

// Frames of one size, in any order.
class StaticPixelMask {
 public:
  void add(const frames::Image& image);  // ignores images of another size than the first

  std::size_t frames() const { return frames_; }

  // Boxes around strokes that are identical in all frames and within the outer quarter of the frame
  // on any side, the largest first. Empty for fewer than two frames, or if less than 2 % of the
  // pixels change, because text is then indistinguishable from image.
  std::vector<frames::Rect> bright_regions() const;

 private:
  bool is_line(int x, int y, int dx, int dy) const;

  std::size_t frames_ = 0;
  preprocess::LevelRange levels_;
};

// Collects the results of a dry run per exam.

struct Settings {
  frames::FrameSelection selection;
  frames::ReaderOptions reader;
  preprocess::Preprocessing preprocessing;  // mask, crop, spacing and tiles are tried out
  int threads = 1;
  int thumbnails = 0;  // their longer side in pixels; 0: none are stored
};

using Size = std::pair<int, int>;  // width, height
using Digest = std::array<std::byte, 16>;

inline constexpr int kSamples = 8;  // frames of each exam that are decoded

// A few values that are brighter do not make a dark frame bright.
inline constexpr double kBrightFraction = 0.001;

struct ExamSurvey {
  std::string failure;                  // why it cannot be extracted; other fields are then partial
  std::string kind;                     // of its files, as OpenedExam::kind()
  std::size_t frames = 0, missing = 0;  // all slots, and those of them without a file
  std::size_t lost = 0;            // of these, whose file cannot be read, or of the sampled ones
  std::string fault;               // of the first that is lost
  std::size_t partly_finite = 0;   // frames with some NaN or infinite values
  std::size_t selected = 0;        // slots that would be extracted
  std::size_t windows = 0;         // of them; of images as many
  std::size_t padded_windows = 0;  // of these (or of blocks), with padding
  // Of a volume: its voxels after resampling and crop, and the size of a block in millimetres. Then
  // `windows` counts rows and `inputs` blocks.
  std::array<std::int64_t, 3> volume{};
  std::array<double, 3> block_mm{};
  // Median seconds from the first to the last frame of those without; NaN if unknown.
  double window_s = std::numeric_limits<double>::quiet_NaN();
  double decode_s = 0;                   // of one core for what the job decodes, from the samples
  std::size_t inputs = 0;                // of the backbone, tiles counted, from the sampled frames
  std::uint64_t thumbnail_bytes = 0;     // of all windows, from the sampled frames
  Timing timing;                         // of all slots
  frames::OrderBasis basis = {};         // of their order and times
  std::vector<frames::Note> notes = {};  // of its files
  std::vector<std::size_t> phases;       // frames in each phase of --phases, of all slots
  std::vector<Size> sizes;               // distinct ones of the sampled frames, before any crop
  std::vector<Digest> pictures;          // of the sampled frames' pixels; not of plain ones
  std::vector<frames::Rect> bright;      // still bright regions that mask and crop leave
  int bright_level = -1;                 // kBrightFraction of their values are above it; -1: none
};

struct Survey {
  std::vector<ExamSurvey> exams;  // as in the input
  // Static parts in the first frames of different exams, by size (at most 64 sizes).
  std::map<Size, StaticPixelMask> across;
};

// Opens every exam on `settings.threads` threads, counts its frames, reads their times and decodes
// up to kSamples of them. If `settings.reader.estimate` is set, counts of clips are estimates.
// Interrupted after a stop request.
Survey survey(const frames::ExamList& input, const Settings& settings);

}  // namespace coldframe::extract::dry_run
