// The way that the steps of a fit go (schedule.h), and the next smaller one when memory runs out.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "train_temporal/fit/tune/schedule.h"

namespace coldframe::tune {

class RecomputePlanner {
 public:
  using Task = std::function<StepTask(std::int64_t frames)>;
  // `budget`: bytes of a step, 0: any. `strategy`: the only one, or nothing.
  RecomputePlanner(Task task, std::uint64_t budget, std::optional<Strategy> strategy)
      : task_(std::move(task)), budget_(budget), strategy_(strategy) {}

  // The fastest way of so many frames; the first one of each strategy is said. SystemError when
  // none fits.
  const Way& choose(std::int64_t frames);
  const Way& current() const { return current_; }
  // A step's exams may go in turn. Returns how many of its frames fit at a time, at least 1; an
  // exam with more frames goes by itself.
  std::int64_t frames_at_once(std::int64_t frames);
  // `exam`: the frames of the longest, where exams may go in turn; 0: all frames go together.
  std::uint64_t predicted_bytes(std::int64_t frames, std::int64_t exam) const;
  // Memory ran out on the current way: another one that takes at most three quarters of it, for
  // this step and those after it. SystemError when there is none.
  void shrink();
  // The current way's, for a chunk of so many frames whose first so many steps are to be run.
  const Schedule& schedule(std::int64_t frames, std::size_t steps);

  // Memory that ran out has taught this: a budget that goes before the given one, 0 before memory
  // ran out.
  std::uint64_t learnt_budget() const { return learnt_; }
  void set_learnt_budget(std::uint64_t bytes);

 private:
  std::uint64_t budget() const {
    if (learnt_ == 0 || budget_ == 0) return std::max(learnt_, budget_);
    return std::min(learnt_, budget_);
  }
  std::int64_t max_at_once(std::int64_t frames) const;
  void forget_ways();
  void take(const std::vector<RankedSchedule>& considered);

  Task task_;
  std::uint64_t budget_, learnt_ = 0;
  std::optional<Strategy> strategy_;
  std::int64_t frames_ = 0;
  std::int64_t fit_ = 0;          // at once within the budget, as is known so far
  bool more_do_not_fit_ = false;  // than these
  Way current_;
  std::set<Strategy> said_;
  std::map<std::int64_t, Way> chosen_;                                  // by the step's frames
  std::map<std::pair<std::int64_t, std::size_t>, Schedule> schedules_;  // of the current way
};

}  // namespace coldframe::tune
