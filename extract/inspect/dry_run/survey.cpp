#include "extract/inspect/dry_run/survey.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <new>
#include <set>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/cli/interrupt.h"
#include "common/cli/progress.h"
#include "common/files/fingerprint.h"
#include "common/system/memory.h"
#include "common/text/text.h"
#include "common/threads/parallel.h"
#include "extract/frames/opened_exam.h"
#include "extract/pipeline/thumbnail.h"
#include "extract/plan/crop_plan.h"
#include "extract/preprocess/prepared_frame.h"

namespace coldframe::extract::dry_run {
namespace {

constexpr std::size_t kMostSizes = 64;

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
  void look_at_frame(frames::Frame&& frame, const std::optional<frames::Rect>& crop,
                     ExamSurvey& found, StillParts& parts);
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

// The frames of floats beside the samples, of which any may hold no number. What they take is not
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
  const auto selected = opened.select(settings_.selection);
  found.selected = selected.size();
  if (const auto& phases = settings_.selection.phases; !phases.empty())
    found.phases = frames::count_phases(times, phases,
                                        std::isnan(exam.elapsed_start) ? 0 : exam.elapsed_start);
  const auto present = with_a_file(opened, selected), samples = choose_samples(present);
  StillParts parts;
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
  found.thumbnail_bytes = found.thumbnail_bytes * present.size() / sampled;
  found.bright = parts.bright_regions();
}

void Surveyor::look_at_frame(frames::Frame&& frame, const std::optional<frames::Rect>& crop,
                             ExamSurvey& found, StillParts& parts) {
  const Size size{frame.pixels.width, frame.pixels.height};
  if (std::find(found.sizes.begin(), found.sizes.end(), size) == found.sizes.end())
    found.sizes.push_back(size);
  if (!is_plain(frame.pixels)) found.pictures.push_back(digest_of(frame.pixels));
  const preprocess::PreparedFrame prepared(settings_.preprocessing, std::move(frame), crop);
  const frames::Image& image = prepared.image();
  const int level = *std::max_element(image.rgb.begin(), image.rgb.end());
  found.brightest = std::max(found.brightest, level);
  if (settings_.thumbnails > 0)
    found.thumbnail_bytes += make_thumbnail(image, settings_.thumbnails).size();
  found.inputs = std::max(found.inputs, prepared.tiles() * found.selected);
  if (parts.frames() == 0) add_across({image.width, image.height}, image);
  parts.add(image);
}

void Surveyor::add_across(const Size& size, const frames::Image& image) {
  const std::lock_guard lock(mutex_);
  if (result_.across.size() < kMostSizes || result_.across.contains(size))
    result_.across[size].add(image);
}

}  // namespace

Survey survey(const frames::ExamList& input, const Settings& settings) {
  return Surveyor(input, settings).run();
}

}  // namespace coldframe::extract::dry_run
