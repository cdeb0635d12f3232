// Progress of a long job on stderr: one line rewritten in place, with rate and time left, on a
// terminal; a line every few seconds elsewhere; nothing with --quiet.
#pragma once

#include <chrono>
#include <cstddef>
#include <mutex>
#include <string>

namespace coldframe {

// Seconds that the rest of a job takes at the pace of `done` (above 0) in `elapsed` seconds.
double seconds_left(double elapsed, double done, double all);

class Progress {
 public:
  // `total` = 0 when unknown. Example: Progress progress("extract", "frames", 1560);
  Progress(std::string label, std::string unit, std::size_t total);
  ~Progress();  // finishes the line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void add(std::size_t count = 1);  // thread-safe
  // If some units take far longer than others, these estimate the time left from work of any unit,
  // instead of from the number of units.
  void expect_work(double all);
  void add_work(double done);
  void leave_out_work(double part);  // what need not be done after all
  // Once `count` units are done, a line says what all take: "map: 108 frames, about 6 min".
  void estimate_after(std::size_t count);
  void set_note(std::string note);  // shown after the numbers, e.g. "val loss 0.412"
  void finish();

 private:
  void show(bool last);
  void show_estimate();
  void write(std::string line, bool ends) const;

  std::mutex mutex_;
  std::string label_, unit_, note_;
  std::size_t total_, done_ = 0, estimated_at_ = 0;  // 0: never
  double work_ = 0, worked_ = 0;                     // 0: units are the work
  std::chrono::steady_clock::time_point started_, shown_;
  bool terminal_, finished_ = false;
};

}  // namespace coldframe
