// Progress of a long job on stderr: one line rewritten in place, with rate and time left, on a
// terminal; a line every few seconds elsewhere; nothing with --quiet.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace coldframe {

class Progress {
 public:
  // `total` = 0 when unknown. Example: Progress progress("extract", "frames", 1560);
  Progress(std::string label, std::string unit, std::size_t total);
  ~Progress();  // finishes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(std::size_t count = 1);  // thread-safe
  void set_note(std::string note);  // shown after the numbers, e.g. "val loss 0.412"
  void finish();

 private:
  void show(bool last);

  std::mutex mutex_;
  std::string label_, unit_, note_;
  std::size_t total_, done_ = 0;
  std::chrono::steady_clock::time_point started_, shown_;
  bool terminal_, finished_ = false;
};

}  // namespace coldframe
