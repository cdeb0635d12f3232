// Decoder threads: exams to inputs of the backbone, in a bounded queue.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "cache/format/exam.h"
#include "common/files/fingerprint.h"
#include "common/threads/bounded_queue.h"
#include "extract/decode/frame.h"
#include "extract/decode/source.h"
#include "extract/input/exam_list.h"
#include "extract/input/opened_exam.h"
#include "extract/input/select_frames.h"
#include "extract/pipeline/resume.h"
#include "extract/pipeline/window_frames.h"
#include "extract/preprocess/augment.h"
#include "extract/preprocess/preprocessing.h"

namespace coldframe::extract {

// The items that decoders pass to the devices, and the queue between them.

// The position of a feature: exam, window and view.
struct FeatureIndex {
  std::size_t task = 0;    // index into the tasks
  std::size_t window = 0;  // of the exam: of an image, its slot
  std::size_t tiles = 1;   // of that window; their features are averaged
  std::size_t view = 0;    // 0: clean, 1 … K: augmented
  // Of a block that shares its row with all others of its volume, which `tiles` then counts: its
  // number, and where it lies among them. Null: of none.
  std::size_t block = 0;
  std::shared_ptr<const preprocess::BlockGrid> blocks = nullptr;
};

using InputDigest = std::array<std::byte, 16>;  // of the backbone's input

// One window (an image is one of a single frame), or a tile of one, as backbone input. The decoder
// thread computes the digest: there are more decoders than batch-filling threads.
struct DecodedWindow {
  DecodedWindow(const FeatureIndex& of, std::vector<std::uint8_t> shown, std::size_t blank_ = 0)
      : place(of),
        pixels(std::move(shown)),
        blank(blank_),
        digest(xxh3_128(std::as_bytes(std::span(pixels)))) {
    digest.front() ^= static_cast<std::byte>(blank);
    digest.back() ^= static_cast<std::byte>(blank >> 8);
  }

  FeatureIndex place;
  std::vector<std::uint8_t> pixels;  // [T, H, W, 3]; of a block the bytes of float32 [X, Y, Z]
  std::size_t blank;                 // frames at its end that are zero once normalised
  InputDigest digest;                // xxh3_128 of the pixels, with `blank` mixed in
};

// Sent after an exam's last window: the exam's metadata, or why it could not be read.
struct DecodedExam {
  std::size_t task = 0;
  cache::ExamInfo info;
  std::vector<std::string> thumbnails;  // as ExamFeatures::thumbnails
  std::optional<cache::Failure> failure;
  std::vector<cache::Failure> lost = {};  // of rows
  // The feature of each row: window · steps + step. Empty: row i has feature i.
  std::vector<std::size_t> features_of_rows = {};
  std::size_t partly_finite = 0;         // number of frames with some NaN or infinite values
  frames::OrderBasis basis = {};         // of their order and times
  std::vector<frames::Note> notes = {};  // of its files
  bool as_before = false;                // the same frames are still unreadable
};

using Decoded = std::variant<DecodedWindow, DecodedExam>;

// Holds decoded windows until a device takes them. Their buffers are recycled: a device returns a
// buffer after copying it, and a decoder refills it, since faulting in fresh pages takes as long as
// the copy.
class DecodedQueue : public BoundedQueue<Decoded> {
 public:
  static constexpr std::size_t kLeast = 64, kMaxBytes = 256u << 20;

  DecodedQueue(std::size_t window_bytes, std::size_t devices, std::size_t windows = kLeast)
      : BoundedQueue(windows), window_bytes_(window_bytes), devices_(devices), least_(windows) {}

  // Room for two batches of each device, within kMaxBytes or the windows that it began with. It
  // never shrinks.
  void deepen(std::size_t batch) {
    const std::size_t most = std::max(least_, kMaxBytes / std::max<std::size_t>(1, window_bytes_));
    widen(std::min(2 * batch * devices_, most));
  }

  // A used buffer, or an empty one.
  std::vector<std::uint8_t> spare() {
    const std::lock_guard lock(spares_mutex_);
    if (spares_.empty()) return {};
    std::vector<std::uint8_t> pixels = std::move(spares_.back());
    spares_.pop_back();
    return pixels;
  }
  void recycle(std::vector<std::vector<std::uint8_t>>&& used) {
    const std::size_t room = capacity();
    const std::lock_guard lock(spares_mutex_);
    used.resize(std::min(used.size(), room - std::min(room, spares_.size())));
    std::ranges::move(used, std::back_inserter(spares_));
  }

 private:
  std::size_t window_bytes_, devices_, least_;
  std::mutex spares_mutex_;
  std::vector<std::vector<std::uint8_t>> spares_;
};

// The first stage of extraction: threads that open exams, decode their selected frames and resize
// them.

struct DecodeSettings {
  preprocess::Preprocessing preprocessing;
  frames::FrameSelection selection;
  frames::ReaderOptions reader;
  augment::Augmentation augmentation;
  std::size_t steps = 1;       // rows of a window: Backbone::clip_steps()
  int thumbnails = 0;          // their longer side in pixels; 0: none
  std::size_t min_frames = 1;  // an exam with fewer readable rows fails
  int threads = 1;
};

// Windows of one exam (by their last frames), views of one window and tiles of one view arrive in
// order; exams of different threads are interleaved. After a stop request, silently drops the
// current exam and starts no other.
class DecodeStage {
 public:
  // Closes `queue` after the last exam, or with the first unexpected error of a decoding thread.
  DecodeStage(const frames::ExamList& exams, const DecodeSettings& settings, DecodedQueue& queue);
  ~DecodeStage();  // closes the queue and stops the threads

 private:
  void work();
  bool decode_exam(std::size_t task);  // false: the stage is stopping
  void read(DecodedExam& exam, bool& stopped);
  void read_frames(const frames::OpenedExam& opened, frames::SourceDigest& digest,
                   DecodedExam& exam, bool& stopped);
  void read_blocks(const frames::OpenedExam& opened, frames::SourceDigest& digest,
                   DecodedExam& exam, bool& stopped);
  void finish(const frames::OpenedExam& opened, frames::SourceDigest& digest,
              const std::set<std::filesystem::path>& were_read, DecodedExam& exam, bool& stopped);
  bool is_as_before(const frames::OpenedExam& opened, const ExamWindows& windows,
                    DecodedExam& exam) const;
  void settle_failure(DecodedExam& exam) const;
  bool push_windows(const frames::OpenedExam& opened, const ExamWindows& windows, SeenFrames& seen,
                    DecodedExam& exam);
  void note_lost_rows(const ExamWindows& windows, const SeenFrames& seen, DecodedExam& exam) const;
  void note_lost_tail(const frames::OpenedExam& opened, const ExamWindows& windows,
                      DecodedExam& exam) const;
  void note_lost(const std::string& source, const std::string& fault, DecodedExam& exam) const;
  cache::Failure failure_of(std::size_t task, const std::string& reason) const;

  const frames::ExamList& exams_;  // a task is the index of one of them
  DecodeSettings settings_;
  DecodedQueue& queue_;
  std::atomic<std::size_t> next_task_{0};
  std::atomic<int> running_;
  std::vector<std::jthread> threads_;
};

}  // namespace coldframe::extract
