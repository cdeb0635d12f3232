#include "common/cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::string rate_text(double per_second) {
  return fixed(per_second, per_second < 10.0 ? 1 : 0);
}

}  // namespace

double seconds_left(double elapsed, double done, double all) {
  return elapsed * std::max(all - done, 0.0) / done;
}

Progress::Progress(std::string label, std::string unit, std::size_t total)
    : label_(std::move(label)),
      unit_(std::move(unit)),
      total_(total),
      started_(Clock::now()),
      shown_(started_),
      terminal_(stderr_is_terminal()) {}

Progress::~Progress() {
  try {
    finish();
  } catch (...) {
    // Progress is talk; losing a line of it must not end the job.
  }
}

void Progress::add(std::size_t count) {
  const std::lock_guard lock(mutex_);
  done_ += count;
  if (estimated_at_ > 0 && done_ >= estimated_at_) show_estimate();
  show(false);
}

void Progress::expect_work(double all) {
  const std::lock_guard lock(mutex_);
  work_ = all;
}

void Progress::add_work(double done) {
  const std::lock_guard lock(mutex_);
  worked_ += done;
  show(false);
}

void Progress::leave_out_work(double part) {
  const std::lock_guard lock(mutex_);
  work_ -= part;
}

void Progress::estimate_after(std::size_t count) {
  const std::lock_guard lock(mutex_);
  estimated_at_ = count;
}

void Progress::set_note(std::string note) {
  const std::lock_guard lock(mutex_);
  note_ = std::move(note);
  show(false);
}

void Progress::finish() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(finished_, true)) return;
  show(true);
}

void Progress::show_estimate() {
  estimated_at_ = 0;
  if (is_quiet() || done_ >= total_) return;
  const double all = seconds_since(started_) * static_cast<double>(total_) / double(done_);
  write(concat(label_, ": ", total_, " ", unit_, ", about ", human_duration(all)), true);
}

void Progress::write(std::string line, bool ends) const {
  line = printable(line);
  const std::string text = terminal_ ? "\r" + line + "\x1b[K" + (ends ? "\n" : "") : line + "\n";
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, text.data(), text.size());
}

void Progress::show(bool last) {
  if (is_quiet() || (finished_ && !last)) return;
  const double interval = terminal_ ? 0.1 : 5.0;  // seconds between updates
  if (!last && seconds_since(shown_) < interval) return;
  shown_ = Clock::now();
  const double elapsed = seconds_since(started_);
  const double rate = elapsed > 0.0 ? static_cast<double>(done_) / elapsed : 0.0;

  std::string line = concat(label_, ": ", done_);
  if (total_ > 0) line += concat("/", total_);
  line += " " + unit_;
  if (total_ > 0) {
    line += concat(" (", fixed(100.0 * static_cast<double>(done_) / static_cast<double>(total_), 0),
                   "%)");
  }
  if (elapsed > 0.5 && done_ > 0) line += concat(", ", rate_text(rate), "/s");
  if (last) {
    line += ", " + human_duration(elapsed);
  } else if (const auto [done, all] =
                 work_ > 0 ? std::pair(worked_, work_) : std::pair(double(done_), double(total_));
             all > done && done > 0) {
    line += concat(", about ", human_duration(seconds_left(elapsed, done, all)), " left");
  }
  if (!note_.empty()) line += ", " + note_;
  write(std::move(line), last);
}

}  // namespace coldframe
