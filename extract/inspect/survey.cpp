#include "extract/inspect/survey.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <set>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/cli/progress.h"
#include "common/files/fingerprint.h"
#include "common/numbers/quantile.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/exam_list.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"
#include "extract/pipeline/crop_plan.h"
#include "extract/pipeline/thumbnail.h"
#include "extract/pipeline/volume_blocks.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract::dry_run {

namespace {

// Frames at each time where all times have as many, else 1.
std::size_t frames_at_once(std::span<const double> times) {
  std::size_t common = 0;
  for (std::size_t begin = 0, end = 0; begin < times.size(); begin = end) {
    while (end < times.size() && times[end] == times[begin]) ++end;
    if (common != 0 && end - begin != common) return 1;
    common = end - begin;
  }
  return common;
}

}  // namespace

Timing describe_times(std::span<const double> times_s) {
  std::vector<double> known;
  std::copy_if(times_s.begin(), times_s.end(), std::back_inserter(known),
               [](double time) { return std::isfinite(time); });
  Timing timing;
  if (known.empty()) return timing;
  const auto [first, last] = std::minmax_element(known.begin(), known.end());
  timing.span_s = *last - *first;
  std::vector<double> steps;
  for (std::size_t i = 1; i < known.size(); ++i) {
    const double interval = known[i] - known[i - 1];
    timing.duplicate += interval == 0;
    timing.decreasing += interval < 0;
    if (interval != 0) steps.push_back(interval);
  }
  if (!steps.empty()) timing.interval_s = median(steps);
  timing.kind = TimingKind::kPartlyKnown;
  if (known.size() < times_s.size()) return timing;
  timing.at_once = frames_at_once(known);
  timing.kind = TimingKind::kSingle;
  if (steps.empty()) return timing;
  const double tolerance = std::max(0.02 * std::abs(timing.interval_s), 0.0015);
  const bool constant = std::all_of(steps.begin(), steps.end(), [&](double step) {
    return std::abs(step - timing.interval_s) <= tolerance;
  });
  const bool regular = timing.at_once > 1 || timing.duplicate == 0;
  timing.kind = constant && regular ? TimingKind::kConstant : TimingKind::kUneven;
  return timing;
}

namespace {

using frames::Rect;

constexpr int kStill = 12;     // levels that coding noise may change a pixel by
constexpr int kMoving = 24;    // levels from which on a pixel moves
constexpr int kBright = 120;   // of a stroke
constexpr int kContrast = 90;  // to the still background within `kReach` pixels
constexpr int kReach = 4;
constexpr int kBlock = 8;           // pixels
constexpr int kStrokePixels = 5;    // in a block of text
constexpr std::size_t kBlocks = 3;  // of text that are worth telling

constexpr int kBothWays = 8;  // pixels of lines in either direction

// Blocks that hold text, and their connected groups; gaps of one block join, as between words.
class TextBlocks {
 public:
  TextBlocks(int width, int height)
      : width_(width),
        height_(height),
        columns_((width + kBlock - 1) / kBlock),
        rows_((height + kBlock - 1) / kBlock),
        strokes_(static_cast<std::size_t>(columns_) * static_cast<std::size_t>(rows_)) {}

  // A pixel of a line that runs down, across, or both (a dot, a slope).
  void add_stroke(int x, int y, bool down, bool across) {
    Strokes& block = at(x / kBlock, y / kBlock);
    ++block.all;
    block.down += down;
    block.across += across;
  }
  std::vector<Rect> groups();

 private:
  struct Strokes {
    int all = 0, down = 0, across = 0;  // pixels
  };
  struct Group {
    cv::Rect box;  // in blocks
    std::size_t blocks = 0;
    int down = 0, across = 0;  // pixels
  };
  Strokes& at(int bx, int by) {
    return strokes_[static_cast<std::size_t>(by) * static_cast<std::size_t>(columns_) +
                    static_cast<std::size_t>(bx)];
  }
  std::vector<Group> connected();

  int width_, height_, columns_, rows_;
  std::vector<Strokes> strokes_;
};

std::vector<TextBlocks::Group> TextBlocks::connected() {
  cv::Mat1b text = cv::Mat1b::zeros(rows_, columns_);
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      if (at(bx, by).all < kStrokePixels) continue;
      text(by, bx) = 1;
      if (bx + 1 < columns_) text(by, bx + 1) = 1;  // closes a gap
    }
  }
  cv::Mat1i number;
  std::vector<Group> groups(preprocess::label_connected_components(text, number));
  for (int by = 0; by < rows_; ++by) {
    for (int bx = 0; bx < columns_; ++bx) {
      const Strokes& strokes = at(bx, by);
      if (strokes.all < kStrokePixels) continue;
      Group& group = groups[static_cast<std::size_t>(number(by, bx) - 1)];
      group.box |= cv::Rect(bx, by, 1, 1);
      ++group.blocks;
      group.down += strokes.down;
      group.across += strokes.across;
    }
  }
  return groups;
}

std::vector<Rect> TextBlocks::groups() {
  std::vector<Rect> found;
  for (const auto& [box, blocks, down, across] : connected()) {
    // Letters and traces run both ways; the echo of a probe's surface runs across only.
    if (blocks < kBlocks || down < kBothWays || across < kBothWays) continue;
    // Half a block more on each side: the rim of a letter may fill too little of the next one.
    const int left = std::max(0, box.x * kBlock - kBlock / 2);
    const int top = std::max(0, box.y * kBlock - kBlock / 2);
    const int right = std::min(width_, box.br().x * kBlock + kBlock / 2);
    const int bottom = std::min(height_, box.br().y * kBlock + kBlock / 2);
    found.push_back({left, top, right - left, bottom - top});
  }
  return found;
}

bool near_border(const Rect& box, int width, int height) {
  const auto outside = [](int begin, int length, int edge) {
    const int centre = 2 * begin + length;  // twice, so that it is whole
    return 2 * centre < edge || 2 * centre > 3 * edge;
  };
  return outside(box.x, box.width, width) || outside(box.y, box.height, height);
}

}  // namespace

void StaticPixelMask::add(const frames::Image& image) {
  frames_ += levels_.add(image);
}

// Still and bright, with still and much darker pixels on either side along (dx, dy), as a line has
// across its direction.
bool StaticPixelMask::is_line(int x, int y, int dx, int dy) const {
  const std::size_t centre = levels_.at(x, y);
  const auto still = [&](std::size_t pixel) { return levels_.change(pixel) <= kStill; };
  if (levels_.low[centre] < kBright || !still(centre)) return false;
  const auto darker = [&](int sign) {
    for (int step = 1; step <= kReach; ++step) {
      const int nx = x + sign * step * dx, ny = y + sign * step * dy;
      if (nx < 0 || ny < 0 || nx >= levels_.width || ny >= levels_.height) return false;
      const std::size_t pixel = levels_.at(nx, ny);
      if (still(pixel) && levels_.high[pixel] + kContrast <= levels_.low[centre]) return true;
    }
    return false;
  };
  return darker(-1) && darker(1);
}

std::vector<Rect> StaticPixelMask::bright_regions() const {
  if (frames_ < 2) return {};
  const int width = levels_.width, height = levels_.height;
  std::size_t moving = 0;
  for (std::size_t i = 0; i < levels_.low.size(); ++i) moving += levels_.change(i) >= kMoving;
  if (moving * 50 < levels_.low.size()) return {};
  TextBlocks blocks(width, height);
  for (int y = 0; y < height; ++y) {
    for (int x = 0; x < width; ++x) {
      const bool down = is_line(x, y, 1, 0), across = is_line(x, y, 0, 1);
      if (down || across) blocks.add_stroke(x, y, down, across);
    }
  }
  std::vector<Rect> found = blocks.groups();
  std::erase_if(found, [&](const Rect& box) { return !near_border(box, width, height); });
  std::stable_sort(found.begin(), found.end(), [](const Rect& a, const Rect& b) {
    return a.width * a.height > b.width * b.height;
  });
  return found;
}

namespace {

constexpr std::size_t kMaxSizes = 64;

// True for an image of one colour throughout: black frames are alike in many exams and mean
// nothing.
bool is_plain(const frames::Image& image) {
  return std::equal(image.rgb.begin() + 3, image.rgb.end(), image.rgb.begin());
}

Digest digest_of(const frames::Image& image) {
  Xxh3Stream stream;
  const std::array<int, 2> size{image.width, image.height};
  stream.update(std::as_bytes(std::span(size)));
  stream.update(std::as_bytes(std::span(image.rgb)));
  return stream.digest();
}

class Surveyor {
 public:
  Surveyor(const frames::ExamList& input, const Settings& settings)
      : input_(input), settings_(settings), progress_("look", "exams", input.exams.size()) {
    result_.exams.resize(input.exams.size());
  }
  Survey run();

 private:
  void look_at(std::size_t index);
  void open(const frames::ExamSpec& exam, ExamSurvey& found);
  void look_at_frames(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
                      std::span<const double> times, ExamSurvey& found);
  void look_at_volume(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
                      ExamSurvey& found) const;
  void look_at_frame(frames::Frame&& frame, const std::optional<frames::Rect>& crop,
                     ExamSurvey& found, StaticPixelMask& parts);
  void add_across(const Size& size, const frames::Image& image);

  const frames::ExamList& input_;
  const Settings& settings_;
  Survey result_;
  Progress progress_;
  std::mutex mutex_;  // of result_.across
};

Survey Surveyor::run() {
  const auto take_turn = [this](std::size_t index) {
    if (stop_requested()) return;
    look_at(index);
    progress_.add();
  };
  parallel_for(input_.exams.size(), take_turn, static_cast<std::size_t>(settings_.threads));
  progress_.finish();
  if (stop_requested()) throw Interrupted("stopped; a dry run starts from the beginning");
  return std::move(result_);
}

void Surveyor::look_at(std::size_t index) {
  ExamSurvey& found = result_.exams[index];
  try {
    open(input_.exams[index], found);
  } catch (const DataError& error) {
    found.failure = error.what();
  } catch (const std::bad_alloc&) {
    found.failure = "there is not enough memory to decode it";
  }
}

void note_lost(const std::string& fault, ExamSurvey& found) {
  ++found.lost;
  if (found.fault.empty()) found.fault = fault;
}

void note_slot(const frames::OpenedExam::Slot& slot, ExamSurvey& found) {
  if (!slot.fault.empty())
    note_lost(slot.fault, found);
  else if (slot.source == nullptr)
    ++found.missing;
}

std::vector<std::int64_t> with_a_file(const frames::OpenedExam& opened,
                                      std::vector<std::int64_t> slots) {
  std::erase_if(slots, [&](std::int64_t slot) {
    return opened.slots()[static_cast<std::size_t>(slot)].source == nullptr;
  });
  return slots;
}

std::vector<std::int64_t> choose_samples(const std::vector<std::int64_t>& slots) {
  std::vector<std::int64_t> samples;
  for (const auto i : frames::spread_evenly(static_cast<std::int64_t>(slots.size()), kSamples))
    samples.push_back(slots[static_cast<std::size_t>(i)]);
  return samples;
}

// The frames of floats next to the samples, of which any may hold no number. What they take is not
// wasted: the range of most such files is found in all their values anyway.
std::vector<std::int64_t> frames_of_floats(const frames::OpenedExam& opened,
                                           std::vector<std::int64_t> slots,
                                           const std::vector<std::int64_t>& samples) {
  std::erase_if(slots, [&](std::int64_t slot) {
    return !opened.slots()[static_cast<std::size_t>(slot)].source->holds_floats() ||
           std::ranges::binary_search(samples, slot);
  });
  return slots;
}

void note_windows(std::span<const frames::FrameWindow> windows, std::span<const double> times,
                  ExamSurvey& found) {
  found.windows = windows.size();
  std::vector<double> spans;
  for (const frames::FrameWindow& window : windows) {
    found.padded_windows += window.padded > 0;
    const auto time_of = [&](std::int64_t slot) { return times[static_cast<std::size_t>(slot)]; };
    const double span = time_of(window.seen().back()) - time_of(window.seen().front());
    if (window.padded == 0 && std::isfinite(span)) spans.push_back(span);
  }
  if (!spans.empty()) found.window_s = median(spans);
}

void Surveyor::open(const frames::ExamSpec& exam, ExamSurvey& found) {
  const frames::OpenedExam opened(exam, settings_.reader);
  std::vector<double> times;
  for (const auto& slot : opened.slots()) {
    times.push_back(slot.time_s);
    note_slot(slot, found);
  }
  found.kind = opened.kind();
  found.frames = times.size();
  found.timing = describe_times(times);
  found.basis = opened.basis();
  if (settings_.preprocessing.volume.is_on())
    look_at_volume(exam, opened, found);
  else
    look_at_frames(exam, opened, times, found);
}

// Reads headers, and values only where the body's box is asked for.
void Surveyor::look_at_volume(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
                              ExamSurvey& found) const {
  const preprocess::Preprocessing& preprocessing = settings_.preprocessing;
  const ExamBlocks volume(exam, opened, preprocessing, settings_.reader.window,
                          ExamBlocks::Detail::kGeometry);
  const preprocess::BlockGrid& blocks = *volume.blocks();
  const preprocess::Size3 size = volume.grid().size();
  found.selected = found.frames;
  found.windows = preprocessing.volume.is_pooled ? 1 : blocks.count();
  found.inputs = blocks.count();
  for (std::size_t block = 0; block < blocks.count(); ++block)
    found.padded_windows += blocks.padded_fraction(block) > 0;
  for (std::size_t axis = 0; axis < 3; ++axis)
    found.block_mm[axis] =
        static_cast<double>(preprocessing.volume.block[axis]) * volume.grid().axis(axis).spacing_mm;
  found.volume = size;
  found.notes = opened.notes();
}

void Surveyor::look_at_frames(const frames::ExamSpec& exam, const frames::OpenedExam& opened,
                              std::span<const double> times, ExamSurvey& found) {
  const std::vector<frames::FrameWindow> windows = opened.windows(settings_.selection);
  const auto selected = frames::slots_of(windows);
  found.selected = selected.size();
  note_windows(windows, times, found);
  if (const auto& phases = settings_.selection.phases; !phases.empty())
    found.phases = frames::count_phases(times, phases,
                                        std::isnan(exam.elapsed_start) ? 0 : exam.elapsed_start);
  const auto present = with_a_file(opened, selected), samples = choose_samples(present);
  StaticPixelMask parts;
  std::size_t sampled = 0;
  // The crop plan keeps the frames that it decodes; the time they take counts.
  double started = thread_cpu_seconds(), decoding = 0;
  const CropPlan crops(exam, opened, settings_.preprocessing);
  opened.read(samples, [&](frames::ExamSlot&& slot) {
    if (!slot.present) {
      note_lost(slot.fault, found);
      return !stop_requested();
    }
    ++sampled;
    found.partly_finite += slot.is_partly_finite();
    decoding += thread_cpu_seconds() - started;
    const auto crop = crops.crop_of(slot);
    in_context(concat("'", exam.items[slot.item].name, "', frame ", slot.frame.index),
               [&] { look_at_frame(std::move(slot.frame), crop, found, parts); });
    started = thread_cpu_seconds();
    return !stop_requested();
  });
  opened.read(frames_of_floats(opened, present, samples), [&](frames::ExamSlot&& slot) {
    if (!slot.present) note_lost(slot.fault, found);
    found.partly_finite += slot.is_partly_finite();
    return !stop_requested();
  });
  found.notes = opened.notes();
  if (sampled == 0) throw DataError(found.fault);
  // The job decodes a clip from the first frame to the last, whichever are selected.
  const bool is_clip = opened.kind().starts_with("video");
  found.decode_s = decoding / static_cast<double>(sampled) *
                   static_cast<double>(is_clip ? found.frames : found.selected);
  const auto has_files = [&](const frames::FrameWindow& window) {
    return std::ranges::all_of(
        window.seen(), [&](auto slot) { return std::ranges::binary_search(present, slot); });
  };
  const auto whole = static_cast<std::size_t>(std::ranges::count_if(windows, has_files));
  found.thumbnail_bytes = found.thumbnail_bytes * whole / sampled;
  found.bright = parts.bright_regions();
}

int bright_level(const frames::Image& image) {
  std::array<std::size_t, 256> counts = {};
  for (const std::uint8_t value : image.rgb) ++counts[value];
  const double brighter = kBrightFraction * static_cast<double>(image.rgb.size());
  std::size_t above = 0;
  for (int level = 255; level > 0; --level) {
    above += counts[static_cast<std::size_t>(level)];
    if (static_cast<double>(above) > brighter) return level;
  }
  return 0;
}

void Surveyor::look_at_frame(frames::Frame&& frame, const std::optional<frames::Rect>& crop,
                             ExamSurvey& found, StaticPixelMask& parts) {
  const Size size{frame.pixels.width, frame.pixels.height};
  if (std::find(found.sizes.begin(), found.sizes.end(), size) == found.sizes.end())
    found.sizes.push_back(size);
  if (!is_plain(frame.pixels)) found.pictures.push_back(digest_of(frame.pixels));
  const preprocess::PreparedFrame prepared(settings_.preprocessing, std::move(frame), crop);
  const frames::Image& image = prepared.image();
  found.bright_level = std::max(found.bright_level, bright_level(image));
  if (settings_.thumbnails > 0)
    found.thumbnail_bytes += make_thumbnail(image, settings_.thumbnails).size();
  found.inputs = std::max(found.inputs, prepared.tiles() * found.windows);
  if (parts.frames() == 0) add_across({image.width, image.height}, image);
  parts.add(image);
}

void Surveyor::add_across(const Size& size, const frames::Image& image) {
  const std::lock_guard lock(mutex_);
  if (result_.across.size() < kMaxSizes || result_.across.contains(size))
    result_.across[size].add(image);
}

}  // namespace

Survey survey(const frames::ExamList& input, const Settings& settings) {
  return Surveyor(input, settings).run();
}

}  // namespace coldframe::extract::dry_run
