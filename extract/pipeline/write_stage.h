// The last stage of extraction: one thread that writes finished exams, so that a slow disk does not
// hold up the backbone.
#pragma once

#include <atomic>
#include <exception>
#include <thread>

#include "cache/write/writer.h"
#include "common/threads/bounded_queue.h"
#include "extract/pipeline/exam_assembly.h"

namespace coldframe::extract {

struct WriteCounts {
  std::size_t exams = 0;
  std::vector<cache::Failure> failures;
};

class WriteStage {
 public:
  // `strict`: the first failure ends the job instead of being recorded.
  WriteStage(cache::ShardWriter& writer, bool strict);
  ~WriteStage();

  void push(Finished&& finished);  // throws what the writing thread ran into
  WriteCounts finish();            // waits until all is handed to the writer; throws likewise

 private:
  void work();
  void write(const Finished& finished);
  void fail(cache::Failure failure);

  cache::ShardWriter& writer_;
  bool strict_;
  WriteCounts counts_;
  BoundedQueue<Finished> queue_{64};
  std::exception_ptr error_;  // set by the thread before it closes the queue
  std::jthread thread_;
};

}  // namespace coldframe::extract
