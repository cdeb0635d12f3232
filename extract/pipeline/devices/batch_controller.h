// Decides how many frames go through the backbone at once: as many as the user says, or as many as
// pay, and never more than the memory holds. Pure arithmetic on what the caller measured.
#pragma once

#include <cstdint>
#include <string>

namespace coldframe::extract {

struct BatchLimits {
  std::int64_t batch = 0;           // --batch; 0: auto
  std::uint64_t memory_budget = 0;  // bytes that tensors may take; 0: no budget
  std::int64_t most = 256;          // frames up to which auto grows
  std::int64_t first = 0;           // frames with which it begins, if these are more than kFirst
};

// `auto` starts small, or with what is known to fit, and doubles as long as a doubling brings at
// least 5 % more frames a second and its memory, extrapolated from the last two sizes, stays within
// the budget. Each size is timed by its fastest batch, since the first ones of a size also pay for
// allocation and code generation.
class BatchController {
 public:
  static constexpr std::int64_t kFirst = 4;

  explicit BatchController(const BatchLimits& limits);

  std::int64_t size() const { return size_; }  // frames of the next forward pass, at most

  // A forward pass of `frames` frames went well. `peak` is the most that tensors took during it.
  void succeeded(std::int64_t frames, double seconds, std::uint64_t peak);

  // It did not fit: size() is at most half of `frames` from now on. `frames` > 1.
  void out_of_memory(std::int64_t frames);

  bool settled() const { return settled_; }
  std::string learnt() const;  // one clause for the log: "16 frames per forward pass (auto)"

 private:
  void grow_or_settle();
  bool next_fits() const;

  BatchLimits limits_;
  std::int64_t size_;
  bool settled_;
  bool halved_ = false;
  int batches_ = 0;                           // timed at this size
  double rate_ = 0, rate_before_ = 0;         // frames/s: at this size, at half of it
  std::uint64_t peak_ = 0, peak_before_ = 0;  // bytes, likewise
};

}  // namespace coldframe::extract
