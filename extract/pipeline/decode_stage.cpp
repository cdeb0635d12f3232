#include "extract/pipeline/decode_stage.h"

#include <algorithm>
#include <cmath>
#include <new>
#include <set>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/text/text.h"
#include "common/threads/threads.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/source_file.h"
#include "extract/input/exam_list.h"
#include "extract/input/select_frames.h"
#include "extract/pipeline/crop_plan.h"
#include "extract/pipeline/resume.h"
#include "extract/pipeline/thumbnail.h"
#include "extract/pipeline/volume_blocks.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {

namespace {

// Returns the exam's metadata before decoding.
cache::ExamInfo describe(const frames::ExamSpec& exam) {
  cache::ExamInfo info;
  take_stated(exam, info);
  info.revision = exam.revision;
  info.source_stamp = exam_stamp(exam);
  return info;
}

preprocess::PreparedFrame prepare(const preprocess::Preprocessing& steps,
                                  const frames::ExamSpec& exam, frames::ExamSlot&& slot,
                                  const std::optional<frames::Rect>& crop) {
  return in_context(concat("'", exam.items[slot.item].name, "', frame ", slot.frame.index),
                    [&] { return preprocess::PreparedFrame(steps, std::move(slot.frame), crop); });
}

// Never replaces the cache's rows by fewer.
void require_enough(const cache::ExamInfo& info, const std::vector<cache::Failure>& lost,
                    std::size_t least, std::size_t held, const char* row) {
  const auto present =
      static_cast<std::size_t>(std::count(info.present.begin(), info.present.end(), 1));
  const std::string why = lost.empty() ? "" : concat(": ", lost.front().reason);
  if (present == 0) throw DataError(concat("none of its ", row, "s can be read", why));
  if (present < least)
    throw DataError(
        concat("only ", plural(present, row), " can be read, --min-frames asks for ", least, why));
  if (present < held && !lost.empty())
    throw DataError(concat("only ", plural(present, row), " can be read, the ", held,
                           " of the cache are kept", why));
}

}  // namespace

DecodeStage::DecodeStage(const frames::ExamList& exams, const DecodeSettings& settings,
                         DecodedQueue& queue)
    : exams_(exams), settings_(settings), queue_(queue), running_(settings.threads) {
  threads_ = start_threads(
      static_cast<std::size_t>(settings.threads), [this] { work(); }, 1);
  // Discounts threads that failed to start. The others may all have ended by now.
  const int missing = settings.threads - static_cast<int>(threads_.size());
  if ((running_ -= missing) == 0) queue_.close();
}

DecodeStage::~DecodeStage() {
  queue_.close();
}

void DecodeStage::work() {
  try {
    while (!stop_requested()) {
      const std::size_t task = next_task_++;
      if (task >= exams_.exams.size() || !decode_exam(task)) break;
    }
  } catch (...) {
    queue_.fail(std::current_exception());
  }
  if (--running_ == 0) queue_.close();
}

cache::Failure DecodeStage::failure_of(std::size_t task, const std::string& reason) const {
  const frames::ExamSpec& exam = exams_.exams[task];
  const std::string source = exam.items.empty() ? "" : exam.items.front().name;
  return {exam.id, exam.ordinal, exam.revision, source, reason};
}

// If a retry of an exam fails, the cache keeps what it has.
void DecodeStage::settle_failure(DecodedExam& exam) const {
  const std::vector<std::uint8_t>& present = exams_.exams[exam.task].present;
  exam.lost.clear();
  if (present.empty()) return;
  exam.failure->frames = static_cast<std::size_t>(std::count(present.begin(), present.end(), 0));
  exam.lost.push_back(std::move(*exam.failure));
  exam.failure.reset();
  exam.as_before = true;
}

bool DecodeStage::decode_exam(std::size_t task) {
  DecodedExam result{task, {}, {}, std::nullopt};
  bool stopped = false;
  try {
    read(result, stopped);
  } catch (const DataError& error) {
    result.failure = failure_of(task, error.what());
  } catch (const std::bad_alloc&) {
    result.failure = failure_of(task, "there is not enough memory to decode it");
  } catch (const Interrupted&) {
    stopped = true;
  }
  // A failure after a stop request may be caused by it.
  stopped = stopped || (stop_requested() && (result.failure || !result.lost.empty()));
  if (result.failure) settle_failure(result);
  return !stopped && queue_.push(std::move(result));
}

// Groups adjacent rows that are lost by one file for the same reason.
void DecodeStage::note_lost(const std::string& source, const std::string& fault,
                            DecodedExam& exam) const {
  if (fault.empty()) return;
  const frames::ExamSpec& spec = exams_.exams[exam.task];
  if (exam.lost.empty() || exam.lost.back().source != source || exam.lost.back().reason != fault)
    exam.lost.push_back({spec.id, spec.ordinal, spec.revision, source, fault});
  ++exam.lost.back().frames;
}

void DecodeStage::note_lost_rows(const ExamWindows& windows, const SeenFrames& seen,
                                 DecodedExam& exam) const {
  const auto& items = exams_.exams[exam.task].items;
  const auto was_read = [&](std::int64_t slot) { return seen.contains(slot); };
  for (const frames::WindowRow& row : windows.rows) {
    const frames::FrameWindow& window = windows.windows[row.window];
    if (!std::ranges::all_of(window.seen(), was_read)) continue;
    if (const SeenFrame* const lost = lost_frame(window, seen))
      note_lost(items[lost->item].name, lost->fault, exam);
  }
}

// The lost tail of a file, which no window of several frames need reach.
void DecodeStage::note_lost_tail(const frames::OpenedExam& opened, const ExamWindows& windows,
                                 DecodedExam& exam) const {
  if (!windows.of_clips() || std::isfinite(settings_.selection.end_s)) return;
  const auto& items = exams_.exams[exam.task].items;
  for (std::size_t slot = 0; slot < opened.slots().size(); ++slot) {
    const frames::OpenedExam::Slot& tail = opened.slots()[slot];
    if (tail.is_tail && !std::ranges::binary_search(windows.slots, static_cast<std::int64_t>(slot)))
      note_lost(items[tail.item].name, tail.fault, exam);
  }
}

// Retries the rows of a cached exam that were unreadable at extraction. True if they still cannot
// be read, or if others are lost now: then the cache keeps what it has.
bool DecodeStage::is_as_before(const frames::OpenedExam& opened, const ExamWindows& windows,
                               DecodedExam& exam) const {
  const std::vector<std::uint8_t>& present = exams_.exams[exam.task].present;
  if (present.size() != windows.rows.size()) return false;
  const auto opens = [&](std::int64_t slot) {
    return opened.slots()[static_cast<std::size_t>(slot)].source != nullptr;
  };
  std::vector<frames::FrameWindow> lost;
  for (std::size_t i = 0; i < present.size(); ++i) {
    const frames::FrameWindow& window = windows.windows[windows.rows[i].window];
    if (present[i] == 0) lost.push_back(window);
    if (present[i] != 0 && !std::ranges::all_of(window.seen(), opens)) exam.as_before = true;
  }
  const std::vector<std::int64_t> slots = frames::slots_of(lost);
  SeenFrames seen;
  opened.read(slots, [&](frames::ExamSlot&& slot) {
    seen.emplace(slots[slot.slot], slot);
    return !stop_requested();
  });
  if (seen.size() < slots.size()) throw Interrupted("stopped");
  const auto is_whole = [&](const auto& window) { return lost_frame(window, seen) == nullptr; };
  exam.as_before = exam.as_before || std::ranges::none_of(lost, is_whole);
  if (!exam.as_before) return false;
  note_lost_rows(windows, seen, exam);
  note_lost_tail(opened, windows, exam);
  return true;
}

// Decodes the frames of all windows and pushes the backbone's inputs. False if it was stopped.
bool DecodeStage::push_windows(const frames::OpenedExam& opened, const ExamWindows& windows,
                               SeenFrames& seen, DecodedExam& result) {
  const frames::ExamSpec& exam = exams_.exams[result.task];
  const CropPlan plan(exam, opened, settings_.preprocessing);
  augment::ExamViews views(settings_.augmentation, exam.id);
  WindowFrames waiting(windows.windows);
  const auto spare = [this] { return queue_.spare(); };
  const auto push = [&](std::size_t window, preprocess::Input&& input) {
    const FeatureIndex place{result.task, window, input.tiles, input.view};
    return !stop_requested() && queue_.push(DecodedWindow{place, std::move(input.pixels),
                                                          windows.windows[window].blank()});
  };
  bool stopped = false;
  opened.read(windows.slots, [&](frames::ExamSlot&& slot) {
    const std::int64_t at = windows.slots[slot.slot];
    SeenFrame& frame = seen.emplace(at, slot).first->second;
    result.partly_finite += slot.is_partly_finite();
    if (slot.present) {
      frame.crop = plan.crop_of(slot);
      const auto prepared = prepare(settings_.preprocessing, exam, std::move(slot), frame.crop);
      if (settings_.thumbnails > 0 && windows.is_middle(at))
        frame.thumbnail = make_thumbnail(prepared.image(), settings_.thumbnails);
      stopped = !prepared.make_inputs(
          views,
          [&](preprocess::Input&& input) { return waiting.add(at, std::move(input), push, spare); },
          [&] { return waiting.frame_memory(spare); });
    }
    stopped = stopped || stop_requested();
    return !stopped;
  });
  return !stopped;
}

void DecodeStage::read(DecodedExam& result, bool& stopped) {
  const frames::ExamSpec& exam = exams_.exams[result.task];
  result.info = describe(exam);
  frames::SourceDigest digest(exam);
  const frames::OpenedExam opened(exam, settings_.reader, &digest);
  if (settings_.preprocessing.volume.is_on())
    read_blocks(opened, digest, result, stopped);
  else
    read_frames(opened, digest, result, stopped);
}

void DecodeStage::read_frames(const frames::OpenedExam& opened, frames::SourceDigest& digest,
                              DecodedExam& result, bool& stopped) {
  const frames::ExamSpec& exam = exams_.exams[result.task];
  cache::ExamInfo& info = result.info;
  const ExamWindows windows(opened.windows(settings_.selection), settings_.steps);
  if (is_as_before(opened, windows, result)) return;
  SeenFrames seen;
  stopped = !push_windows(opened, windows, seen, result);
  if (stopped) return;
  note_rows(exam, windows, seen, info);
  note_lost_rows(windows, seen, result);
  note_lost_tail(opened, windows, result);
  require_enough(info, result.lost, settings_.min_frames, exam.held, windows.row_name());
  result.features_of_rows = windows.features_of_rows();
  if (settings_.thumbnails > 0) result.thumbnails = thumbnails_of(windows, seen, info);
  std::set<std::filesystem::path> were_read;
  for (const auto& [slot, frame] : seen)
    if (frame.present) were_read.insert(exam.items[frame.item].path);
  finish(opened, digest, were_read, result, stopped);
  if (stopped) return;
  info.frame_columns = frame_columns_of(exams_, exam, items_of(windows, seen));
  record_crops(crops_of(windows, seen, info), info);
  if (windows.of_clips()) note_window_columns(windows, info);
}

namespace {

// A block has voxels of several slices, so that it takes only what these have in common.
void require_one_value_each(const frames::ExamList& input, const frames::ExamSpec& exam) {
  for (std::size_t c = 0; c < input.frame_columns.size(); ++c)
    for (const frames::ExamItem& item : exam.items)
      if (const auto& first = exam.items.front().frame_columns.at(c);
          item.frame_columns.at(c) != first)
        throw DataError(concat("its slices have several values of the frame column '",
                               input.frame_columns[c], "' ('", first, "' and '",
                               item.frame_columns.at(c),
                               "'), and a block lies in several slices; leave the column out"));
}

}  // namespace

// A volume is read whole: it has no rows that could be lost.
void DecodeStage::read_blocks(const frames::OpenedExam& opened, frames::SourceDigest& digest,
                              DecodedExam& result, bool& stopped) {
  const frames::ExamSpec& exam = exams_.exams[result.task];
  cache::ExamInfo& info = result.info;
  const preprocess::VolumeRule& rule = settings_.preprocessing.volume;
  require_one_value_each(exams_, exam);
  const ExamBlocks volume(exam, opened, settings_.preprocessing, settings_.reader.window);
  volume.note_rows(exam, info);
  require_enough(info, result.lost, settings_.min_frames, exam.held, rule.row_name());
  const std::size_t count = volume.blocks()->count();
  for (std::size_t block = 0; block < count && !stopped; ++block) {
    FeatureIndex place{result.task, block};
    if (rule.is_pooled) place = {result.task, 0, count, 0, block, volume.blocks()};
    stopped =
        stop_requested() || !queue_.push(DecodedWindow{place, volume.read(block, queue_.spare())});
  }
  if (stopped) return;
  std::set<std::filesystem::path> were_read;
  for (const frames::ExamItem& item : exam.items) were_read.insert(item.path);
  finish(opened, digest, were_read, result, stopped);
  if (stopped) return;
  info.frame_columns = frame_columns_of(exams_, exam, std::vector<std::size_t>(info.frames(), 0));
  volume.note_columns(info);
}

// What holds for all rows, once the exam is read.
void DecodeStage::finish(const frames::OpenedExam& opened, frames::SourceDigest& digest,
                         const std::set<std::filesystem::path>& were_read, DecodedExam& result,
                         bool& stopped) {
  cache::ExamInfo& info = result.info;
  info.source_kind = opened.kind();
  result.basis = opened.basis();
  result.notes = opened.notes();
  info.source_digest = digest.finish(were_read);
  stopped = stop_requested();  // files that were not read may have failed by it
  if (stopped) return;
  if (exam_stamp(exams_.exams[result.task]) != info.source_stamp)
    throw DataError("its files changed while they were read; run the same command again");
}

}  // namespace coldframe::extract
