#include "train_temporal/tune/schedule/choose.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "common/text/text.h"

namespace coldframe::tune {
namespace {

constexpr std::uint64_t kAnyBudget = std::numeric_limits<std::uint64_t>::max() / 2;

// Chunks of at least this part of the frames are large. What a step needs beside what it keeps is
// small for smaller ones.
constexpr std::int64_t kParts = 8;

ChunkUse chunk_use(const Schedule& schedule, const ChunkCost& cost) {
  ChunkUse use;
  std::uint64_t input = cost.input;
  for (const StepCost& step : cost.chain) {
    use.without_graph = std::max(use.without_graph, input + step.output + step.forward_extra);
    use.forward += step.forward;
    input = step.output;
  }
  // The chunk's part of the features' gradient is counted with them.
  const std::uint64_t gradient = cost.chain.empty() ? 0 : cost.chain.back().output;
  const std::vector<Moment> moments = memory_over_time(schedule, cost.chain, cost.input);
  bool first = true;
  for (std::size_t i = 0; i < schedule.size(); ++i) {
    if (first && schedule[i].action == Action::kBackward) {
      first = false;
      use.kept = moments[i - 1].after - gradient;
    }
    std::uint64_t& peak = first ? use.first_peak : use.second_peak;
    peak = std::max(peak, moments[i].highest - gradient);
  }
  for (const Operation& operation : schedule) use.seconds += seconds_of(operation, cost.chain);
  return use;
}

// The chunks of a way: all but the last are alike.
class Chunks {
 public:
  Chunks(const StepTask& task, std::int64_t size)
      : uses_(*task.chunks),
        size_(std::min(size, task.frames)),
        count_((task.frames + size_ - 1) / size_),
        last_frames_(task.frames - (count_ - 1) * size_),
        feature_bytes_(static_cast<std::uint64_t>(task.frames) * task.feature_bytes),
        outside_(task.fixed_bytes() + feature_bytes_),
        head_(task.head) {}

  std::int64_t count() const { return count_; }
  std::uint64_t outside() const { return outside_; }  // features or gradient, and what is fixed
  std::uint64_t least_budget() {
    const ChunkCost& full = uses_.cost(size_);
    return least_memory(full.chain, full.input);
  }

  // False where the budget of an optimal schedule is too small.
  bool follow(Strategy strategy, std::uint64_t budget) {
    const auto &full = uses_.use(size_, strategy, budget),
               &last = uses_.use(last_frames_, strategy, budget);
    if (!full || !last) return false;
    full_use_ = *full, last_use_ = *last;
    return true;
  }

  Use use(std::int64_t kept) const {
    std::uint64_t first = 0, second = 0, stays = 0;  // beyond what is outside of the chunks
    if (kept < count_) first = full_use_.without_graph, second = full_use_.peak();
    if (kept == 0) {
      first = std::max(first, last_use_.without_graph);
      second = std::max(second, last_use_.peak());
    }
    for (std::int64_t i = 1; i <= kept; ++i) {  // kept chunks lie at the end
      const ChunkUse& chunk = i == kept ? last_use_ : full_use_;
      first = std::max(first, stays + chunk.first_peak);
      second = std::max(second, stays + chunk.second_peak);
      stays += chunk.kept;
    }
    const std::uint64_t between = stays + feature_bytes_ + head_;
    const auto again = static_cast<double>(count_ - std::max<std::int64_t>(kept, 1));
    return {outside_ + std::max({first, between, second}),
            static_cast<double>(count_ - 1) * full_use_.seconds + last_use_.seconds +
                again * full_use_.forward + (kept == 0 ? last_use_.forward : 0)};
  }

  // The most chunks that can be kept.
  std::int64_t most_kept(std::uint64_t budget) const {
    std::int64_t low = 0, high = count_;  // use() grows with what is kept
    while (low < high) {
      const std::int64_t middle = (low + high + 1) / 2;
      if (use(middle).peak <= budget)
        low = middle;
      else
        high = middle - 1;
    }
    return low;
  }

  // The most bytes for an optimal schedule of a chunk with which all can be kept; 0: there are
  // none.
  std::uint64_t budget_that_keeps_all(std::uint64_t most) {
    std::uint64_t low = 0, high = most - std::min(most, outside_);
    const std::uint64_t near = high / 512 + 1;
    while (high - low > near) {
      const std::uint64_t middle = low + (high - low) / 2;
      const bool fits = follow(Strategy::kOptimal, middle) && use(count_).peak <= most;
      (fits ? low : high) = middle;
    }
    return low;
  }

 private:
  ChunkUses& uses_;
  std::int64_t size_, count_, last_frames_;
  std::uint64_t feature_bytes_, outside_, head_;
  ChunkUse full_use_, last_use_;
};

// All frames, and powers of two below.
std::vector<std::int64_t> sizes(const StepTask& task) {
  const std::int64_t most =
      task.most_chunk > 0 ? std::min(task.most_chunk, task.frames) : task.frames;
  std::vector<std::int64_t> found{most};
  std::int64_t power = 1;
  while (2 * power < most) power *= 2;
  for (; power >= 1 && power < most; power /= 2) found.push_back(power);
  return found;
}

}  // namespace

const ChunkCost& ChunkUses::cost(std::int64_t frames) {
  const auto known = costs_.find(frames);
  return known != costs_.end() ? known->second : costs_[frames] = find_cost_(frames);
}

const std::optional<ChunkUse>& ChunkUses::use(std::int64_t frames, Strategy strategy,
                                              std::uint64_t budget) {
  const auto [place, is_new] = uses_.try_emplace({frames, strategy, budget});
  if (is_new) {
    const ChunkCost& its = cost(frames);
    const Schedule schedule = make_schedule(strategy, its.chain, its.input, budget);
    if (!schedule.empty()) place->second = chunk_use(schedule, its);
  }
  return place->second;
}

std::string to_string(const Way& way) {
  std::string text = word_for(kStrategies, way.strategy);
  text += concat(", ", plural(static_cast<std::size_t>(way.chunk), "frame"), " at a time");
  if (way.kept > 0)
    text += concat(", ", plural(static_cast<std::size_t>(way.kept), "chunk"), " kept");
  return text;
}

Use use_of(const Way& way, const StepTask& task) {
  Chunks chunks(task, way.chunk);
  if (!chunks.follow(way.strategy, way.budget)) return {kAnyBudget, 0};
  return chunks.use(std::min(way.kept, chunks.count()));
}

std::int64_t exams_that_fit(std::int64_t exams, std::uint64_t budget, Strategy strategy,
                            const std::function<StepTask(std::int64_t exams)>& task_of) {
  const auto fits = [&](std::int64_t some) {
    const StepTask task = task_of(some);
    return sizes(task).front() == task.frames &&
           use_of({strategy, task.frames, 1, 0}, task).peak <= planned_part(budget);
  };
  std::int64_t low = 1, high = exams;
  while (low < high) {
    const std::int64_t middle = (low + high + 1) / 2;
    if (fits(middle))
      low = middle;
    else
      high = middle - 1;
  }
  return low;
}

namespace {

std::vector<ConsideredWay> ways_within(const StepTask& task, std::uint64_t most,
                                       std::optional<Strategy> strategy) {
  std::vector<ConsideredWay> found;
  const std::vector<std::int64_t> all_sizes = sizes(task);
  for (const std::int64_t size : all_sizes) {
    Chunks chunks(task, size);
    const bool is_large = size == all_sizes.front() ||
                          size >= std::int64_t(std::bit_floor(std::uint64_t(task.frames / kParts)));
    bool all_kept = false;
    for (const auto& [word, each] : kStrategies) {
      // To keep what is cheap to compute again gains nothing: `none` goes only where it is asked
      // for.
      if (strategy ? each != *strategy : each == Strategy::kNone) continue;
      std::vector<std::uint64_t> budgets{most - std::min(most, chunks.outside())};
      if (each == Strategy::kOptimal && !strategy) {
        // The search takes time. It pays for the largest chunks, once with the whole budget and
        // once so that all are kept, and for the smallest chunk where nothing else fits.
        const bool last =
            size == all_sizes.back() && std::ranges::none_of(found, &ConsideredWay::fits);
        if (all_kept || !(is_large || last)) continue;
        if (size < all_sizes.front()) budgets.push_back(chunks.budget_that_keeps_all(most));
      }
      for (const std::uint64_t budget_of_chunk : budgets) {
        Way way{each, size, 0, each == Strategy::kOptimal ? budget_of_chunk : 0};
        if (!chunks.follow(each, way.budget)) {
          if (!strategy) continue;
          way.budget = chunks.least_budget();
          chunks.follow(each, way.budget);
        }
        way.kept = chunks.most_kept(most);
        const Use use = chunks.use(way.kept);
        found.push_back({way, use, use.peak <= most});
        all_kept = use.peak <= most && way.kept == chunks.count();
      }
    }
  }
  std::ranges::stable_sort(found, [](const ConsideredWay& a, const ConsideredWay& b) {
    if (a.fits != b.fits) return a.fits;
    if (!a.fits) return a.use.peak < b.use.peak;
    return a.use.seconds != b.use.seconds ? a.use.seconds < b.use.seconds : a.use.peak < b.use.peak;
  });
  return found;
}

}  // namespace

std::vector<ConsideredWay> consider_ways(const StepTask& task, std::uint64_t budget,
                                         std::optional<Strategy> strategy) {
  const std::uint64_t most = budget == 0 ? kAnyBudget : budget;
  auto ways = ways_within(task, planned_part(most), strategy);
  if (!ways.front().fits) ways = ways_within(task, most, strategy);
  return ways;
}

}  // namespace coldframe::tune
