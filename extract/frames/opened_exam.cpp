// Reads the selected frames out of an exam's items, one after another.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/text/text.h"
#include "extract/frames/opened_exam.h"
#include "extract/frames/source.h"

namespace coldframe::frames {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

using Slot = OpenedExam::Slot;

struct StopReading {};  // the sink has had enough

}  // namespace

OpenedExam::OpenedExam(const ExamSpec& exam, const ReaderOptions& options)
    : exam_(exam), options_(options) {
  for (std::size_t item = 0; item < exam.items.size(); ++item) add_item(item);
  if (std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.source; })) {
    throw DataError(concat("exam '", exam.id, "' has no frame: every path is empty"));
  }
  set_times();
}

Source& OpenedExam::open(const std::filesystem::path& path) {
  auto& source = sources_[path];
  if (!source) {
    const SourceKind* kind = nullptr;
    source = open_source(path, options_, kind);
    const std::string name = kind->name;
    if (kind_.empty()) {
      kind_ = name;
    } else {
      kind_ = kind_ == name || kind_ == name + "s" ? name + "s" : "mixed";
    }
  }
  return *source;
}

void OpenedExam::add_item(std::size_t item) {
  const ExamItem& wanted = exam_.items[item];
  if (wanted.path.empty()) {
    slots_.push_back({item, nullptr, wanted.first, kUnknown});
    return;
  }
  Source& source = open(wanted.path);
  const std::int64_t available = source.frame_count();
  const std::int64_t last = wanted.last < 0 ? available - 1 : wanted.last;
  if (wanted.first >= available || last >= available) {
    throw DataError(concat("'", wanted.name, "' has ", plural(available, "frame"), "; frame ",
                           std::max(wanted.first, last), " was asked for (they count from 0)"));
  }
  for (std::int64_t index = wanted.first; index <= last; ++index) {
    slots_.push_back({item, &source, index, kUnknown});
  }
}

// Times that the input states hold, with those inside a clip added. Without any, an exam of one
// clip has the clip's, and one of several files may have those that their headers state.
void OpenedExam::set_times() {
  const bool stated = std::any_of(exam_.items.begin(), exam_.items.end(),
                                  [](const ExamItem& item) { return !std::isnan(item.time_s); });
  const auto first =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.source; });
  const bool one_clip = !stated && sources_.size() == 1 && first->source->frame_count() > 1;
  for (Slot& slot : slots_) {
    const ExamItem& item = exam_.items[slot.item];
    if (stated && (slot.source == nullptr || slot.index == item.first)) {
      slot.time_s = item.time_s;
    } else if (stated) {
      slot.time_s = item.time_s + slot.source->time_s(slot.index) - slot.source->time_s(item.first);
    } else if (one_clip && slot.source != nullptr) {
      slot.time_s = slot.source->time_s(slot.index) - first->source->time_s(first->index);
    }
  }
  if (exam_.times_from_headers && sources_.size() > 1) set_times_from_headers();
}

// A file's start, with the frame's time inside the file added. Only where every file states its
// start, none decreases in the order of the input and one rises: the date of a study alone, the
// same in all its files, says nothing of the time between them.
void OpenedExam::set_times_from_headers() {
  std::vector<double> times, known;
  double first = kUnknown;
  for (const Slot& slot : slots_) {
    times.push_back(kUnknown);
    if (slot.source == nullptr) continue;
    const double start = slot.source->start_time();
    if (std::isnan(start)) return;
    if (std::isnan(first)) first = start;
    times.back() = start - first + (slot.index == 0 ? 0 : slot.source->time_s(slot.index));
    if (!std::isnan(times.back())) known.push_back(times.back());
  }
  if (known.empty() || !std::is_sorted(known.begin(), known.end())) return;
  if (known.front() == known.back()) return;
  for (std::size_t slot = 0; slot < slots_.size(); ++slot) {
    slots_[slot].time_s = times[slot] - known.front();
  }
}

namespace {

using Sink = std::function<bool(ExamSlot&&)>;

void hand_over(ExamSlot&& slot, const Sink& sink) {
  if (!sink(std::move(slot))) throw StopReading{};
}

// Reads slots[begin, end), consecutive and ascending frames of one source, in one go.
void read_run(std::span<const Slot> slots, std::size_t begin, std::size_t end, const Sink& sink) {
  std::vector<std::int64_t> indices;
  for (std::size_t slot = begin; slot < end; ++slot) indices.push_back(slots[slot].index);
  std::size_t slot = begin;
  slots[begin].source->read(indices, [&](Frame&& frame) {
    frame.time_s = slots[slot].time_s;
    const std::size_t item = slots[slot].item;
    hand_over(ExamSlot{slot, item, true, std::move(frame)}, sink);
    ++slot;
  });
}

Frame missing_frame(const Slot& slot) {
  Frame frame;
  frame.index = slot.index;
  frame.time_s = slot.time_s;
  return frame;
}

void read_slots(std::span<const Slot> slots, const Sink& sink) {
  for (std::size_t begin = 0; begin < slots.size();) {
    std::size_t end = begin + 1;
    if (slots[begin].source == nullptr) {
      hand_over(ExamSlot{begin, slots[begin].item, false, missing_frame(slots[begin])}, sink);
    } else {
      while (end < slots.size() && slots[end].source == slots[begin].source &&
             slots[end].index > slots[end - 1].index) {
        ++end;
      }
      read_run(slots, begin, end, sink);
    }
    begin = end;
  }
}

}  // namespace

std::vector<std::int64_t> OpenedExam::select(const FrameSelection& selection) const {
  std::vector<double> times;
  for (const Slot& slot : slots_) times.push_back(slot.time_s);
  const std::vector<std::int64_t> selected =
      in_context(concat("exam '", exam_.id, "'"), [&] { return select_frames(times, selection); });
  if (std::none_of(selected.begin(), selected.end(), [&](std::int64_t slot) {
        return slots_[static_cast<std::size_t>(slot)].source;
      })) {
    throw DataError(concat("exam '", exam_.id, "': all of its selected frames are missing ones"));
  }
  return selected;
}

// One range for all files that want one, so that the same value is equally bright in every frame.
void OpenedExam::settle_range() const {
  const auto wanting = [](const auto& source) { return source.second->wants_range(); };
  if (std::none_of(sources_.begin(), sources_.end(), wanting)) return;
  ValueSurvey survey;
  for (const auto& [path, source] : sources_) {
    if (source->wants_range()) source->survey(survey);
  }
  const ValueRange range = survey.range(options_.window);
  for (const auto& [path, source] : sources_) {
    if (source->wants_range()) source->set_range(range);
  }
}

void OpenedExam::read(std::span<const std::int64_t> slots, const Sink& sink) const {
  settle_range();
  std::vector<Slot> selected;
  for (const std::int64_t slot : slots) {
    selected.push_back(slots_[static_cast<std::size_t>(slot)]);
  }
  try {
    read_slots(selected, sink);
  } catch (const StopReading&) {
  }
}

ExamSummary read_exam(const ExamSpec& exam, const FrameSelection& selection,
                      const ReaderOptions& options, const Sink& sink) {
  const OpenedExam opened(exam, options);
  const auto selected = opened.select(selection);
  opened.read(selected, sink);
  return {opened.kind(), selected.size()};
}

}  // namespace coldframe::frames
