// Copies the files of exams that decoders are to read next to a local disk, and drops them behind:
// for inputs on storage that is slow to answer or far away.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "common/files/staged_copies.h"
#include "extract/plan/resume/resume.h"

namespace coldframe::extract {

class ReadAhead {
 public:
  // The copies take at most `most_bytes` in `folder`, which holds no name of theirs: nothing is
  // left of them when the program ends, by SIGKILL too. The tasks must outlive this. SystemError
  // where the folder cannot be written to.
  ReadAhead(std::filesystem::path folder, std::uint64_t most_bytes,
            std::span<const ExamTask> tasks);
  ~ReadAhead();

  // Returns when the task's files are copied, or are to be read where they lie: they are larger
  // than all room, the disk is full, or they cannot be read. Tasks are waited for in their order,
  // and each is dropped.
  void wait_for(std::size_t task);
  void drop(std::size_t task);
  void stop();  // whoever waits returns

  std::uint64_t bytes_taken() const;  // in the folder

 private:
  using Copies = std::vector<std::shared_ptr<const StagedCopy>>;
  struct Stage {
    bool ready = false;
    Copies copies;
  };
  // What the files in the folder take, which live as long as somebody reads them.
  struct Room {
    std::mutex mutex;
    std::condition_variable changed;
    std::size_t files = 0;
    std::uint64_t bytes = 0;
  };
  struct RoomyFile;

  void work();
  std::shared_ptr<RoomyFile> reserve(std::size_t task, std::uint64_t bytes);
  Copies copy(const std::vector<std::filesystem::path>& files,
              const std::shared_ptr<RoomyFile>& into);
  void say_once(bool& said, const std::string& message);

  std::filesystem::path folder_;
  std::uint64_t most_bytes_;
  std::span<const ExamTask> tasks_;
  std::shared_ptr<Room> room_ = std::make_shared<Room>();  // its mutex guards all that follows
  std::vector<Stage> stages_;                              // of each task
  std::size_t next_ = 0, next_reserved_ = 0;               // tasks
  bool stopped_ = false, told_large_ = false, told_full_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace coldframe::extract
