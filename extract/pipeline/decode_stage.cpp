#include "extract/pipeline/decode_stage.h"

#include <algorithm>
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

// Adds a slot to the exam's metadata.
void note_slot(const frames::ExamSpec& exam, const frames::ExamSlot& slot, cache::ExamInfo& info) {
  info.time_s.push_back(slot.frame.time_s);
  info.present.push_back(slot.present);
  // A missing frame names its row, so that a later run finds it again.
  info.frame_index.push_back(slot.present ? slot.frame.index
                                          : static_cast<std::int64_t>(slot.item));
  info.frame_source.push_back(exam.items[slot.item].name);
  if (slot.present && info.frame_width == 0) {
    info.frame_width = slot.frame.pixels.width;
    info.frame_height = slot.frame.pixels.height;
  }
}

preprocess::PreparedFrame prepare(const preprocess::Preprocessing& steps,
                                  const frames::ExamSpec& exam, frames::ExamSlot&& slot,
                                  const std::optional<frames::Rect>& crop) {
  return in_context(concat("'", exam.items[slot.item].name, "', frame ", slot.frame.index),
                    [&] { return preprocess::PreparedFrame(steps, std::move(slot.frame), crop); });
}

// Never replaces the cache's frames by fewer.
void require_enough(const cache::ExamInfo& info, const std::vector<cache::Failure>& lost,
                    std::size_t least, std::size_t held) {
  const auto present =
      static_cast<std::size_t>(std::count(info.present.begin(), info.present.end(), 1));
  const std::string why = lost.empty() ? "" : concat(": ", lost.front().reason);
  if (present == 0) throw DataError(concat("none of its frames can be read", why));
  if (present < least)
    throw DataError(concat("only ", plural(present, "frame"),
                           " can be read, --min-frames asks for ", least, why));
  if (present < held && !lost.empty())
    throw DataError(concat("only ", plural(present, "frame"), " can be read, the ", held,
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

// Groups adjacent frames of one file that are lost for the same reason.
void DecodeStage::note_lost(const frames::ExamSlot& slot, DecodedExam& exam) const {
  if (slot.fault.empty()) return;
  const frames::ExamSpec& spec = exams_.exams[exam.task];
  const std::string& source = spec.items[slot.item].name;
  if (exam.lost.empty() || exam.lost.back().source != source ||
      exam.lost.back().reason != slot.fault)
    exam.lost.push_back({spec.id, spec.ordinal, spec.revision, source, slot.fault});
  ++exam.lost.back().frames;
}

// Retries the frames of a cached exam that were unreadable at extraction. True if they still
// cannot, or if others are lost now: then the cache keeps what it has.
bool DecodeStage::is_as_before(const frames::OpenedExam& opened,
                               std::span<const std::int64_t> selected, DecodedExam& exam) const {
  const std::vector<std::uint8_t>& present = exams_.exams[exam.task].present;
  if (present.size() != selected.size()) return false;
  std::vector<std::int64_t> lost;
  for (std::size_t i = 0; i < selected.size(); ++i) {
    const bool opens = opened.slots()[static_cast<std::size_t>(selected[i])].source != nullptr;
    if (present[i] == 0) lost.push_back(selected[i]);
    if (present[i] != 0 && !opens) exam.as_before = true;
  }
  bool mended = false;
  opened.read(lost, [&](frames::ExamSlot&& slot) {
    mended = mended || slot.present;
    note_lost(slot, exam);
    return !stop_requested();
  });
  exam.as_before = exam.as_before || !mended;
  if (!exam.as_before) exam.lost.clear();
  return exam.as_before;
}

void DecodeStage::read(DecodedExam& result, bool& stopped) {
  const frames::ExamSpec& exam = exams_.exams[result.task];
  cache::ExamInfo& info = result.info = describe(exam);
  frames::SourceDigest digest(exam);
  const frames::OpenedExam opened(exam, settings_.reader, &digest);
  const auto selected = opened.select(settings_.selection);
  if (is_as_before(opened, selected, result)) return;
  const CropPlan plan(exam, opened, settings_.preprocessing);
  augment::ExamViews views(settings_.augmentation, exam.id);
  std::vector<std::size_t> item_of_slot;
  std::vector<std::optional<frames::Rect>> crop_of_slot;
  opened.read(selected, [&](frames::ExamSlot&& slot) {
    note_slot(exam, slot, info);
    note_lost(slot, result);
    result.partly_finite += slot.is_partly_finite();
    item_of_slot.push_back(slot.item);
    crop_of_slot.push_back(slot.present ? plan.crop_of(slot) : std::nullopt);
    std::string thumbnail;
    if (slot.present) {
      FeatureIndex place{result.task, slot.slot};
      const auto frame =
          prepare(settings_.preprocessing, exam, std::move(slot), crop_of_slot.back());
      if (settings_.thumbnails > 0) thumbnail = make_thumbnail(frame.image(), settings_.thumbnails);
      const auto push = [&](preprocess::Input&& input) {
        place.view = input.view;
        place.tiles = input.tiles;
        return !stop_requested() && queue_.push(DecodedFrame{place, std::move(input.pixels)});
      };
      stopped = !frame.make_inputs(views, push, [this] { return queue_.spare(); });
    }
    if (settings_.thumbnails > 0) result.thumbnails.push_back(std::move(thumbnail));
    stopped = stopped || stop_requested();
    return !stopped;
  });
  if (stopped) return;
  require_enough(info, result.lost, settings_.min_frames, exam.held);
  info.source_kind = opened.kind();
  result.basis = opened.basis();
  result.notes = opened.notes();
  std::set<std::filesystem::path> were_read;
  for (std::size_t i = 0; i < item_of_slot.size(); ++i)
    if (info.present[i]) were_read.insert(exam.items[item_of_slot[i]].path);
  info.source_digest = digest.finish(were_read);
  stopped = stop_requested();  // files that were not read may have failed by it
  if (stopped) return;
  if (exam_stamp(exam) != info.source_stamp)
    throw DataError("its files changed while they were read; run the same command again");
  info.frame_columns = frame_columns_of(exams_, exam, item_of_slot);
  record_crops(crop_of_slot, info);
}

}  // namespace coldframe::extract
