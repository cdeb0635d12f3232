// The last stage of extraction: one thread that writes finished exams, so that a slow disk does not
// hold up the backbone.
#pragma once

#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <variant>

#include "cache/format/exam.h"
#include "cache/write/writer.h"
#include "common/threads/bounded_queue.h"
#include "extract/pipeline/decode/decoded.h"

namespace coldframe::extract {

using Finished = std::variant<cache::ExamFeatures, cache::Failure>;

struct WriteCounts {
  std::size_t exams = 0;
  std::vector<cache::Failure> failures;  // of exams
  std::vector<LostFrames> lost;          // of exams that are written
};

class WriteStage {
 public:
  // `strict`: the first failure or lost frame ends the job instead of being recorded. `waiting`:
  // the exams that may wait for the disk.
  WriteStage(cache::ShardWriter& writer, bool strict, std::size_t waiting);
  ~WriteStage();

  // These throw what the writing thread ran into, and several threads may call them. Lost frames go
  // before their exam, so that no crash leaves it without them; those of an exam that the cache has
  // as it is are not `new`.
  void push(Finished&& finished);
  void push_lost(LostFrames&& lost, bool is_new);
  WriteCounts finish();  // waits until all is handed to the writer; throws likewise

 private:
  struct Lost {
    LostFrames frames;
    bool is_new;
  };
  using Work = std::variant<Finished, Lost>;

  void push_work(Work&& work);
  void end();
  void work();
  void write(Finished& finished);
  void note(const Lost& lost);
  void fail(cache::Failure failure);

  cache::ShardWriter& writer_;
  bool strict_;
  bool stop_seen_ = false;
  WriteCounts counts_;
  BoundedQueue<Work> queue_;
  std::exception_ptr error_;  // set by the thread before it closes the queue
  std::mutex joining_;
  std::jthread thread_;
};

}  // namespace coldframe::extract
