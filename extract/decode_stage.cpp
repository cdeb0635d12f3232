#include "extract/decode_stage.h"

#include <new>

#include "common/error.h"
#include "common/interrupt.h"
#include "common/text.h"

namespace coldframe {

DecodeStage::DecodeStage(const frames::ExamList& input, std::span<const ExamTask> tasks,
                         const DecodeSettings& settings)
    : input_(input),
      tasks_(tasks),
      settings_(settings),
      queue_(settings.queue_frames),
      running_(settings.threads) {
  for (int i = 0; i < settings.threads; ++i) threads_.emplace_back([this] { work(); });
}

DecodeStage::~DecodeStage() {
  queue_.close();
}

std::optional<Decoded> DecodeStage::next() {
  return queue_.pop();
}

void DecodeStage::work() {
  try {
    while (!stop_requested()) {
      const std::size_t task = next_task_++;
      if (task >= tasks_.size() || !decode_exam(task)) break;
    }
  } catch (...) {
    queue_.fail(std::current_exception());
  }
  if (--running_ == 0) queue_.close();
}

cache::Failure DecodeStage::failure_of(std::size_t task, const std::string& reason) const {
  const frames::ExamSpec& exam = *tasks_[task].exam;
  const std::string source = exam.items.empty() ? "" : exam.items.front().name;
  return {exam.id, tasks_[task].ordinal, tasks_[task].revision, source, reason};
}

bool DecodeStage::decode_exam(std::size_t task) {
  DecodedExam result{task, {}, std::nullopt};
  bool stopped = false;
  try {
    result.info = read(task, stopped);
  } catch (const DataError& error) {
    result.failure = failure_of(task, error.what());
  } catch (const std::bad_alloc&) {
    result.failure = failure_of(task, "there is not enough memory to decode it");
  }
  return !stopped && queue_.push(std::move(result));
}

cache::ExamInfo DecodeStage::read(std::size_t task, bool& stopped) {
  const frames::ExamSpec& exam = *tasks_[task].exam;
  cache::ExamInfo info;
  info.id = exam.id;
  info.patient = exam.patient;
  info.ordinal = tasks_[task].ordinal;
  info.revision = tasks_[task].revision;
  info.start_time = exam.start_time;
  info.columns = columns_of(exam);
  info.source_stamp = exam_stamp(exam);

  const std::size_t size = static_cast<std::size_t>(settings_.preprocessing.image_size);
  std::vector<std::size_t> item_of_slot;
  const auto summary =
      frames::read_exam(exam, settings_.selection, settings_.reader, [&](frames::ExamSlot&& slot) {
        item_of_slot.push_back(slot.item);
        info.time_s.push_back(slot.frame.time_s);
        info.present.push_back(slot.present);
        // A missing frame names its row, so that a later run finds it again.
        info.frame_index.push_back(slot.present ? slot.frame.index
                                                : static_cast<std::int64_t>(slot.item));
        info.frame_source.push_back(exam.items[slot.item].name);
        if (slot.present) {
          if (info.frame_width == 0) {
            info.frame_width = slot.frame.pixels.width;
            info.frame_height = slot.frame.pixels.height;
          }
          DecodedFrame decoded{task, slot.slot, std::vector<std::uint8_t>(size * size * 3)};
          preprocess::resize_frame(settings_.preprocessing, slot.frame.pixels,
                                   decoded.pixels.data());
          stopped = !queue_.push(std::move(decoded));
        }
        stopped = stopped || stop_requested();
        return !stopped;
      });
  if (stopped) return info;
  if (info.frame_width == 0)
    throw DataError(concat("exam '", exam.id, "' has no frame that is present"));
  info.source_kind = summary.kind;
  info.source_digest = frames::source_digest(exam);
  if (exam_stamp(exam) != info.source_stamp)
    throw DataError("its files changed while they were read; run the same command again");
  info.frame_columns = frame_columns_of(input_, exam, item_of_slot);
  return info;
}

}  // namespace coldframe
