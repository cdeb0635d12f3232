#include "train_temporal/fit/tune/recompute_planner.h"

#include <algorithm>
#include <set>
#include <span>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"

namespace coldframe::tune {
namespace {

constexpr const char* kLess = "--tune-blocks, --train-frames, --hidden or --batch";

// "cheap (2.1 GiB)": faster ones that do not fit, the smallest of each strategy.
std::string rejected(const std::vector<RankedSchedule>& considered) {
  std::vector<std::string> words;
  std::set<Strategy> named{considered.front().way.strategy};
  for (const RankedSchedule& other : considered) {
    if (other.fits || other.use.seconds >= considered.front().use.seconds) continue;
    if (!named.insert(other.way.strategy).second) continue;
    words.push_back(
        concat(word_for(kStrategies, other.way.strategy), " (", human_bytes(other.use.peak), ")"));
  }
  return words.empty() ? "" : concat("; too large: ", join(words, ", "));
}

}  // namespace

const Way& RecomputePlanner::choose(std::int64_t frames) {
  frames_ = frames;
  if (const auto known = chosen_.find(frames); known != chosen_.end()) {
    if (known->second != current_) schedules_.clear();
    return current_ = known->second;
  }
  const auto considered = rank_schedules(task_(frames), budget(), strategy_);
  if (!considered.front().fits)
    throw SystemError(concat("a step of ", plural(static_cast<std::size_t>(frames), "frame"),
                             " takes at least ", human_bytes(considered.front().use.peak),
                             " in addition to the weights, and the memory budget leaves ",
                             human_bytes(budget()), "; raise --memory-budget, or lower ", kLess));
  take(considered);
  return current_;
}

void RecomputePlanner::take(const std::vector<RankedSchedule>& considered) {
  const RankedSchedule& best = considered.front();
  current_ = chosen_[frames_] = best.way;
  schedules_.clear();
  if (!said_.insert(best.way.strategy).second) return;
  log_info_once(concat("tuning goes by ", to_string(best.way), ": ", human_bytes(best.use.peak),
                       budget() > 0 ? concat(" of ", human_bytes(budget())) : "",
                       rejected(considered)));
}

// A strategy that searches is asked for by name: then all frames go together by it.
std::int64_t RecomputePlanner::max_at_once(std::int64_t frames) const {
  const Strategy strategy = strategy_.value_or(Strategy::kCheap);
  if (budget() == 0 || strategy == Strategy::kOptimal) return frames;
  return exams_that_fit(frames, budget(), strategy, task_);
}

std::int64_t RecomputePlanner::frames_at_once(std::int64_t frames) {
  if (frames > fit_ && !more_do_not_fit_) {
    fit_ = max_at_once(frames);
    more_do_not_fit_ = fit_ < frames;
    if (more_do_not_fit_)
      log_info_once(concat("a tuning step goes in micro-batches: at most ",
                           plural(static_cast<std::size_t>(fit_), "frame"),
                           " at a time, or a longer exam by itself"));
  }
  return std::min(frames, fit_);
}

std::uint64_t RecomputePlanner::predicted_bytes(std::int64_t frames, std::int64_t exam) const {
  const auto peak = [this](std::int64_t some) {
    return rank_schedules(task_(some), budget(), strategy_).front().use.peak;
  };
  const std::int64_t most = exam > 0 ? max_at_once(frames) : frames;
  return exam > most ? std::max(peak(most), peak(exam)) : peak(most);
}

void RecomputePlanner::forget_ways() {
  chosen_.clear();
  fit_ = 0;
  more_do_not_fit_ = false;
}

void RecomputePlanner::shrink() {
  const StepTask task = task_(frames_);
  const std::uint64_t used = use_of(current_, task).peak, next = used / 4 * 3;
  const auto considered = rank_schedules(task, next, strategy_);
  const RankedSchedule& best = considered.front();
  if (best.use.peak >= used)
    throw SystemError(concat("there is not enough memory to tune by ", to_string(current_),
                             ", which is ", "predicted to take ", human_bytes(used),
                             " in addition to the weights, and no way of ",
                             plural(static_cast<std::size_t>(frames_), "frame"),
                             " takes less; raise --memory-budget, or lower ", kLess));
  log_info(concat("out of memory: tuning goes on by ", to_string(best.way), " (",
                  human_bytes(best.use.peak), ")"));
  learnt_ = std::max(next, best.use.peak);
  forget_ways();
  current_ = chosen_[frames_] = best.way;
  schedules_.clear();
}

void RecomputePlanner::set_learnt_budget(std::uint64_t bytes) {
  learnt_ = bytes;
  forget_ways();
}

const Schedule& RecomputePlanner::schedule(std::int64_t frames, std::size_t steps) {
  Schedule& schedule = schedules_[{frames, steps}];
  if (!schedule.empty()) return schedule;
  const StepTask task = task_(frames_);
  const ChunkCost& cost = task.chunks->cost(frames);
  const auto chain = std::span(cost.chain).first(steps);
  schedule = make_schedule(current_.strategy, chain, cost.input, current_.budget);
  // The rest of a chunk that ran out of memory may be too large for the search.
  if (schedule.empty())
    schedule = make_schedule(Strategy::kOptimal, chain, cost.input, min_memory(chain, cost.input));
  return schedule;
}

}  // namespace coldframe::tune
