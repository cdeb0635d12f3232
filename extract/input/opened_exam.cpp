// Reads the selected frames of an exam's items in order.
#include <algorithm>
#include <cmath>
#include <exception>
#include <map>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/text/text.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/frame.h"
#include "extract/decode/source.h"
#include "extract/decode/source_file.h"
#include "extract/input/exam_list.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"

namespace coldframe::frames {
namespace {

using Slot = OpenedExam::Slot;

// A manifest cannot ask for more frames than this that a file does not have.
constexpr std::int64_t kMaxLost = std::int64_t{1} << 20;

struct StopReading {};  // the sink stopped early

// Carries an error of the sink past the readers, which would attribute it to the frame.
struct SinkFailed {
  std::exception_ptr error;
};

}  // namespace

OpenedExam::OpenedExam(const ExamSpec& exam, const ReaderOptions& options, SourceDigest* digest)
    : exam_(exam), options_(options), digest_(digest) {
  for (std::size_t item = 0; item < exam.items.size(); ++item) add_item(item);
  if (std::none_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.source; })) {
    for (const Slot& slot : slots_)
      if (!slot.fault.empty()) throw DataError(slot.fault);
    throw DataError(concat("exam '", exam.id, "' has no frame: every path is empty"));
  }
  set_times();
}

// A selection by time holds for a file's own times where the exam is one whole file that nothing
// else states times of.
ReaderOptions OpenedExam::options_for_files() const {
  ReaderOptions options = options_;
  const ExamItem& first = exam_.items.front();
  const bool is_one_file = exam_.items.size() == 1 && first.first == 0 && first.last < 0;
  if (is_one_file && std::isnan(first.time_s)) return options;
  const ReaderOptions defaults;
  options.from_s = defaults.from_s;
  options.until_s = defaults.until_s;
  return options;
}

// Null if the file cannot be opened; faults_ has the reason.
Source* OpenedExam::open(const std::filesystem::path& path) {
  if (faults_.contains(path)) return nullptr;
  if (const auto known = sources_.find(path); known != sources_.end()) return known->second.get();
  try {
    const SourceFile file(path, digest_);
    held_ = file.hold();
    const SourceKind& kind = require_kind(file);
    auto source = kind.open(file, options_for_files());
    source->frame_count();  // of a clip decodes it
    const std::string name = kind.name;
    if (kind_.empty()) {
      kind_ = name;
    } else {
      kind_ = kind_ == name || kind_ == name + "s" ? name + "s" : "mixed";
    }
    return sources_.emplace(path, std::move(source)).first->second.get();
  } catch (const DataError& error) {
    faults_.emplace(path, error.what() + why_missing(path));
    return nullptr;
  }
}

void OpenedExam::add_lost(std::size_t item, std::int64_t first, std::int64_t last,
                          const std::string& fault) {
  if (last - first >= kMaxLost) throw DataError(fault);
  for (std::int64_t index = first; index <= last; ++index) {
    slots_.push_back({item, nullptr, index, kNotStated, fault});
  }
}

// A file that cannot be opened counts with the frames that the input requests, or one, since its
// number is unknown.
void OpenedExam::add_item(std::size_t item) {
  const ExamItem& wanted = exam_.items[item];
  if (wanted.path.empty()) {
    slots_.push_back({item, nullptr, wanted.first, kNotStated});
    return;
  }
  Source* const source = open(wanted.path);
  if (source == nullptr) {
    const std::int64_t last = wanted.last < 0 ? wanted.first : wanted.last;
    return add_lost(item, wanted.first, last, faults_.at(wanted.path));
  }
  if (wanted.last < 0 && source->streams() > 1)
    return add_lost(item, 0, 0,
                    concat("'", wanted.name, "' holds ", source->streams(),
                           " channels, and the exam's first file does not; make it an exam of its "
                           "own, or name its frames in the column 'frame'"));
  const std::string tail = source->lost_tail();
  const std::int64_t available = source->frame_count(),
                     readable = available - (tail.empty() ? 0 : 1);
  const std::int64_t last = wanted.last < 0 ? std::max(available - 1, wanted.first) : wanted.last;
  for (std::int64_t index = wanted.first; index <= std::min(last, readable - 1); ++index) {
    slots_.push_back({item, source, index, kNotStated});
  }
  if (last < readable) return;
  const std::size_t before = slots_.size();
  add_lost(item, std::max(wanted.first, readable), last,
           !tail.empty() ? tail
                         : concat("'", wanted.name, "' has ", plural(available, "frame"),
                                  "; frame ", last, " was asked for (they count from 0)"));
  if (!tail.empty() && slots_.size() > before) slots_.back().is_tail = true;
}

bool OpenedExam::states_times() const {
  return std::ranges::any_of(exam_.items,
                             [](const ExamItem& item) { return !std::isnan(item.time_s); });
}

// Times that the input states hold, with those inside a clip added. Without any, an exam of one
// clip has the clip's, and one of several files may have those that their headers state.
void OpenedExam::set_times() {
  const bool stated = states_times();
  const auto first =
      std::find_if(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.source; });
  const bool one_file = sources_.size() + faults_.size() == 1;
  const bool one_clip = !stated && one_file && first->source->frame_count() > 1;
  for (Slot& slot : slots_) {
    const ExamItem& item = exam_.items[slot.item];
    if (stated && slot.index == item.first) {
      slot.time_s = item.time_s;
    } else if (stated && slot.source != nullptr) {
      slot.time_s = item.time_s + slot.source->time_s(slot.index) - slot.source->time_s(item.first);
    } else if (one_clip && slot.source != nullptr) {
      slot.time_s = slot.source->time_s(slot.index) - first->source->time_s(first->index);
    }
  }
  if (exam_.times_from_headers && sources_.size() > 1) set_times_from_headers();
}

// A file's start, with the frame's time inside the file added. Only if every file states its start,
// none decreases in input order and at least one increases: the date of a study alone, the same in
// all its files, says nothing of the time between them.
void OpenedExam::set_times_from_headers() {
  std::vector<double> times, known;
  double first = kNotStated;
  for (const Slot& slot : slots_) {
    times.push_back(kNotStated);
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
  header_times_ = true;
}

OrderBasis OpenedExam::basis() const {
  OrderBasis basis = exam_.basis;
  if (exam_.items.size() == 1 && !sources_.empty()) {
    const OrderBasis own = sources_.begin()->second->basis();
    basis.order = own.order;
    basis.names_alone = false;
    if (basis.times.empty()) basis.times = own.times;
  }
  const bool known =
      std::ranges::any_of(slots_, [](const Slot& slot) { return !std::isnan(slot.time_s); });
  if (!known || slots_.size() < 2) basis.times.clear();
  basis.names_alone = basis.names_alone && !known;
  if (known && slots_.size() > 1 && basis.times.empty())
    basis.times = header_times_ ? kAcquisitionTime : states_times() ? "the input" : kFileOrder;
  return basis;
}

std::vector<Note> OpenedExam::notes() const {
  std::vector<Note> notes;
  for (const ExamItem& item : exam_.items) {
    const auto source = sources_.find(item.path);
    if (source == sources_.end()) continue;
    for (std::string& text : source->second->notes())
      if (std::ranges::find(notes, text, &Note::text) == notes.end())
        notes.push_back({std::move(text), item.name});
  }
  return notes;
}

namespace {

using Sink = std::function<bool(ExamSlot&&)>;

void hand_over(ExamSlot&& slot, const Sink& sink) {
  if (!sink(std::move(slot))) throw StopReading{};
}

ExamSlot missing_slot(std::span<const Slot> slots, std::size_t at, std::string fault) {
  Frame frame;
  frame.index = slots[at].index;
  frame.time_s = slots[at].time_s;
  return {at, slots[at].item, false, std::move(frame), std::move(fault)};
}

// A frame without any finite value is missing; one with some, such as a slice with NaN background,
// is kept.
ExamSlot slot_of(std::span<const Slot> slots, std::size_t at, Frame&& frame, const ExamSpec& exam) {
  const std::size_t item = slots[at].item;
  if (!frame.fault.empty()) return missing_slot(slots, at, std::move(frame.fault));
  if (frame.finite == 0)
    return missing_slot(slots, at,
                        concat("'", exam.items[item].name,
                               "': none of the values is a finite number (all are NaN or "
                               "infinite)"));
  frame.time_s = slots[at].time_s;
  return {at, item, true, std::move(frame)};
}

// Reads slots[begin, end), consecutive and ascending frames of one source, up to the first that
// cannot be read; returns the slot after what was handed over.
std::size_t read_whole(std::span<const Slot> slots, std::size_t begin, std::size_t end,
                       const ExamSpec& exam, const Sink& sink) {
  std::vector<std::int64_t> indices;
  for (std::size_t slot = begin; slot < end; ++slot) indices.push_back(slots[slot].index);
  std::size_t slot = begin;
  const auto take = [&](Frame&& frame) {
    try {
      hand_over(slot_of(slots, slot, std::move(frame), exam), sink);
    } catch (const std::exception&) {
      throw SinkFailed{std::current_exception()};
    }
    ++slot;
  };
  try {
    slots[begin].source->read(indices, take);
  } catch (const CorruptFile&) {
    throw;
  } catch (const UnreadableFromHere& error) {
    while (slot < end) {
      hand_over(missing_slot(slots, slot, error.what()), sink);
      ++slot;
    }
  } catch (const DataError& error) {
    if (slot == end) throw;  // all were handed over: as CorruptFile
    hand_over(missing_slot(slots, slot, error.what()), sink);
    ++slot;
  }
  return slot;
}

}  // namespace

void OpenedExam::read_slots(std::span<const Slot> slots, const Sink& sink) const {
  for (std::size_t begin = 0; begin < slots.size();) {
    std::size_t end = begin + 1;
    if (slots[begin].source == nullptr) {
      hand_over(missing_slot(slots, begin, slots[begin].fault), sink);
    } else if (auto seen = seen_.extract(slots[begin].source)) {
      hand_over(slot_of(slots, begin, std::move(seen.mapped()), exam_), sink);
    } else {
      while (end < slots.size() && slots[end].source == slots[begin].source &&
             slots[end].index > slots[end - 1].index) {
        ++end;
      }
      if (digest_ != nullptr) digest_->turn_to(exam_.items[slots[begin].item].path);
      while (begin < end) begin = read_whole(slots, begin, end, exam_, sink);
    }
    begin = end;
  }
}

// An unreadable frame of unknown time takes the previous frame's time for selection, so that it
// does not block selection by the known times.
std::vector<double> OpenedExam::times_to_select_by() const {
  std::vector<double> times;
  double before = kNotStated;
  for (const Slot& slot : slots_) {
    const bool lost = !slot.fault.empty() && std::isnan(slot.time_s);
    times.push_back(lost ? before : slot.time_s);
    if (!lost) before = slot.time_s;
  }
  const auto known =
      std::find_if(times.begin(), times.end(), [](double t) { return !std::isnan(t); });
  for (std::size_t slot = 0; known != times.end() && !slots_[slot].fault.empty(); ++slot) {
    if (std::isnan(times[slot])) times[slot] = *known;
  }
  return times;
}

std::vector<FrameWindow> OpenedExam::windows(const FrameSelection& selection) const {
  const std::vector<FrameWindow> windows = in_context(concat("exam '", exam_.id, "'"), [&] {
    std::vector<std::size_t> items;
    std::vector<std::int64_t> tails;
    for (const Slot& slot : slots_) {
      if (slot.is_tail) tails.push_back(static_cast<std::int64_t>(items.size()));
      items.push_back(slot.item);
    }
    return select_windows(exam_, items, times_to_select_by(), selection, tails);
  });
  std::string fault;
  for (const std::int64_t at : slots_of(windows)) {
    const Slot& slot = slots_[static_cast<std::size_t>(at)];
    if (slot.source != nullptr) return windows;
    if (fault.empty()) fault = slot.fault;
  }
  throw DataError(concat("exam '", exam_.id, "': ",
                         fault.empty()
                             ? "all of its selected frames are missing ones"
                             : concat("none of its selected frames can be read: ", fault)));
}

std::vector<std::int64_t> OpenedExam::select(const FrameSelection& selection) const {
  return slots_of(windows(selection));
}

// One range for all files that want one, so that the same value is equally bright in every frame.
void OpenedExam::settle_range() const {
  const auto wanting = [](const auto& source) { return source.second->wants_range(); };
  const auto first = std::find_if(sources_.begin(), sources_.end(), wanting);
  if (first == sources_.end()) return;
  if (sources_.size() == 1 && first->second->finds_range_alone()) return;
  const Window window = first->second->range_window(options_.window);
  ValueSurvey survey;
  for (const auto& [path, source] : sources_) {
    try {
      if (source->wants_range()) source->survey(survey);
    } catch (const DataError&) {  // its frames say why when they are read
    }
  }
  const ValueRange range = survey.range(window);
  for (const auto& [path, source] : sources_) {
    if (source->wants_range()) source->set_range(range);
  }
}

struct OpenedExam::Stack {
  std::vector<std::size_t> items;  // a file each
  std::vector<Source*> sources;    // of these
  VolumeGeometry geometry;
};

OpenedExam::Stack OpenedExam::stack_of_files() const {
  Stack whole;
  std::vector<Plane> planes;
  std::vector<std::string> names;
  for (const Slot& slot : slots_) {
    const ExamItem& item = exam_.items[slot.item];
    if (slot.source == nullptr)
      throw DataError(slot.fault.empty() ? "a slice has no file, and a volume is read whole"
                                         : slot.fault);
    if (!whole.sources.empty() && slot.source == whole.sources.back()) continue;
    const std::vector<Plane> own = slot.source->planes();
    if (item.last >= 0 && own.size() > 1)
      throw DataError(concat("the input names frames of '", item.name,
                             "', and a volume is read whole; leave the column 'frame' out"));
    whole.items.push_back(slot.item);
    whole.sources.push_back(slot.source);
    planes.insert(planes.end(), own.begin(), own.end());
    names.resize(planes.size(), item.name);
    if (whole.sources.size() > 1 && planes.size() > whole.sources.size())
      throw DataError(concat("it holds several volumes ('", names.front(), "', '", item.name,
                             "'); make an exam of each"));
  }
  whole.geometry = stack(planes, names);
  return whole;
}

VolumeGeometry OpenedExam::volume_geometry() const {
  return stack_of_files().geometry;
}

Volume OpenedExam::volume() const {
  Stack whole = stack_of_files();
  Volume volume(std::move(whole.geometry));
  std::size_t plane = 0;
  for (std::size_t i = 0; i < whole.sources.size(); ++i) {
    if (digest_ != nullptr) digest_->turn_to(exam_.items[whole.items[i]].path);
    whole.sources[i]->read_planes([&](std::span<const double> values) {
      if (stop_requested()) throw Interrupted("stopped");
      volume.set_plane(plane++, values);
    });
  }
  return volume;
}

void OpenedExam::look(std::span<const std::int64_t> slots, const Sink& sink) const {
  constexpr std::size_t kMaxBytes = 32 << 20;
  std::size_t bytes = 0;
  read(slots, [&](ExamSlot&& slot) {
    Source* const source = slots_[static_cast<std::size_t>(slots[slot.slot])].source;
    const std::size_t own = slot.frame.pixels.rgb.size();
    if (slot.present && source->frame_count() == 1 && bytes + own <= kMaxBytes) {
      seen_.emplace(source, slot.frame);
      bytes += own;
    }
    return sink(std::move(slot));
  });
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
  } catch (const SinkFailed& failed) {
    std::rethrow_exception(failed.error);
  }
}

}  // namespace coldframe::frames
