// The first stage of extraction: threads that open exams, decode their selected frames and resize
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "cache/format/exam.h"
#include "extract/augment/exam_views.h"
#include "extract/frames/opened_exam.h"
#include "extract/frames/source.h"
#include "extract/pipeline/decode/decoded.h"
#include "extract/plan/resume/resume.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {

struct DecodeSettings {
  preprocess::Preprocessing preprocessing;
  frames::FrameSelection selection;
  frames::ReaderOptions reader;
  augment::Augmentation augmentation;
  int thumbnails = 0;          // their longer side in pixels; 0: none
  std::size_t min_frames = 1;  // an exam of which fewer can be read fails
  int threads = 1;
};

// Frames of one exam, views of one frame and tiles of one view arrive in order, exams of different
// threads interleaved. After a stop request the exam at hand is dropped without a word and no
// further one is begun.
class DecodeStage {
 public:
  // `queue` ends when all is decoded, and fails with the first unexpected error of a decoding
  // thread.
  DecodeStage(const frames::ExamList& exams, const DecodeSettings& settings, DecodedQueue& queue);
  ~DecodeStage();  // closes the queue and stops the threads

 private:
  void work();
  bool decode_exam(std::size_t task);  // false: the stage is stopping
  void read(DecodedExam& exam, bool& stopped);
  bool is_as_before(const frames::OpenedExam& opened, std::span<const std::int64_t> selected,
                    DecodedExam& exam) const;
  void settle_failure(DecodedExam& exam) const;
  void note_lost(const frames::ExamSlot& slot, DecodedExam& exam) const;
  cache::Failure failure_of(std::size_t task, const std::string& reason) const;

  const frames::ExamList& exams_;  // a task is the place of one among them
  DecodeSettings settings_;
  DecodedQueue& queue_;
  std::atomic<std::size_t> next_task_{0};
  std::atomic<int> running_;
  std::vector<std::jthread> threads_;
};

}  // namespace coldframe::extract
