// The first stage of extraction: threads that open exams, decode their selected frames and resize
// them.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <variant>
#include <vector>

#include "cache/format/exam.h"
#include "common/threads/bounded_queue.h"
#include "extract/augment/exam_views.h"
#include "extract/frames/opened_exam.h"
#include "extract/frames/source.h"
#include "extract/pipeline/frame_place.h"
#include "extract/pipeline/known_features.h"
#include "extract/pipeline/read_ahead.h"
#include "extract/plan/resume/resume.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {

// One frame, or one tile of it, ready for the backbone's input: [S, S, 3] uint8.
struct DecodedFrame {
  FramePlace place;
  std::vector<std::uint8_t> pixels;
};

// Frames of an exam that cannot be read and are masked, for one reason.
struct LostFrames {
  cache::Failure failure;
  std::size_t frames = 0;
};

// Follows an exam's last frame: what is known of the exam, or why it could not be read.
struct DecodedExam {
  std::size_t task = 0;
  cache::ExamInfo info;
  std::vector<std::string> thumbnails;  // as ExamFeatures::thumbnails
  std::optional<cache::Failure> failure;
  std::vector<LostFrames> lost = {};
  bool as_before = false;    // as the cache holds it, since the frames lost then are lost still
  KnownFeatures known = {};  // of which no frame was handed over
};

using Decoded = std::variant<DecodedFrame, DecodedExam>;

struct DecodeSettings {
  preprocess::Preprocessing preprocessing;
  frames::FrameSelection selection;
  frames::ReaderOptions reader;
  augment::Augmentation augmentation;
  int thumbnails = 0;          // their longer side in pixels; 0: none
  std::size_t min_frames = 1;  // an exam of which fewer can be read fails
  int threads = 1;
  std::size_t queue_frames = 64;  // decoded frames that may wait
  // A local folder to which files are copied ahead, and the most that they take there; "": none.
  std::filesystem::path stage = {};
  std::uint64_t stage_bytes = 0;
};

// Frames of one exam, views of one frame and tiles of one view arrive in order, exams of different
// threads interleaved. After a stop request the exam at hand is dropped without a word and no
// further one is begun.
class DecodeStage {
 public:
  DecodeStage(const frames::ExamList& input, std::span<const ExamTask> tasks,
              const DecodeSettings& settings);
  ~DecodeStage();  // stops the threads

  // Empty when all is decoded; rethrows the first unexpected error of a decoding thread, or what
  // fail() was given. May be called by several threads.
  std::optional<Decoded> next();
  void fail(std::exception_ptr error) { queue_.fail(std::move(error)); }

 private:
  void work();
  bool decode_exam(std::size_t task);  // false: the stage is stopping
  cache::ExamInfo describe(std::size_t task) const;
  void read(DecodedExam& exam, bool& stopped);
  bool is_as_before(const frames::OpenedExam& opened, std::span<const std::int64_t> selected,
                    DecodedExam& exam) const;
  void settle_failure(DecodedExam& exam) const;
  void note_lost(const frames::ExamSlot& slot, DecodedExam& exam) const;
  cache::Failure failure_of(std::size_t task, const std::string& reason) const;

  const frames::ExamList& input_;
  std::span<const ExamTask> tasks_;
  DecodeSettings settings_;
  BoundedQueue<Decoded> queue_;
  std::optional<ReadAhead> ahead_;
  std::atomic<std::size_t> next_task_{0};
  std::atomic<int> running_;
  std::vector<std::jthread> threads_;
};

}  // namespace coldframe::extract
