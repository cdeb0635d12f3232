#include "train_temporal/tune/schedule/optimal_schedule.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace coldframe::tune {
namespace {

constexpr std::size_t kSlots = 1000;  // the paper has 500
constexpr double kNever = std::numeric_limits<double>::infinity();

// Bytes that a part of the chain needs beyond its input, from step s to step t, both included: the
// input of s is there, and so is the gradient of t's output, which they count.
class Needs {
 public:
  Needs(std::span<const StepCost> chain) : chain_(chain) {}

  // Running s with its graph needs this: forward, and later backward.
  std::uint64_t with_graph(std::size_t s, std::size_t t, Keep keep) const {
    const GraphCost& cost = chain_[s].graph(keep);
    const std::uint64_t all = graph(s, keep);
    return std::max(gradient(t) + all + cost.graph_extra,
                    input_gradient(s) + chain_[s].output + all + cost.backward_extra);
  }
  std::uint64_t graph(std::size_t s, Keep keep) const {
    return chain_[s].output + chain_[s].graph(keep).saved;
  }
  // Running step j without a graph needs this on the way from s, whose input stays.
  std::uint64_t without_graph(std::size_t s, std::size_t j, std::size_t t) const {
    return gradient(t) + (j > s ? input(j) : 0) + chain_[j].output + chain_[j].forward_extra;
  }
  std::uint64_t input(std::size_t j) const { return chain_[j - 1].output; }
  std::uint64_t gradient(std::size_t t) const { return chain_[t].output; }

 private:
  std::uint64_t input_gradient(std::size_t s) const { return s == 0 ? 0 : input(s); }

  std::span<const StepCost> chain_;
};

// What goes first on the way from step s to step t.
struct Choice {
  std::size_t last;          // of the steps that run without a graph before an input stays;
  Keep keep = Keep::kWhole;  // t: none, s runs with its graph, which keeps so much
};

void append_choice(Schedule& schedule, std::size_t s, std::size_t t, const Choice& choice) {
  if (choice.last == t) return schedule.push_back({Action::kForwardWithGraph, s, choice.keep});
  for (std::size_t i = s; i <= choice.last; ++i)
    schedule.push_back({i == s ? Action::kForwardKeepInput : Action::kForward, i});
}

// The shortest time of every part of the chain in every number of slots.
class Programme {
 public:
  Programme(std::span<const StepCost> chain, std::uint64_t bytes)
      : chain_(chain), needs_(chain), slot_(std::max(1.0, double(bytes) / kSlots)) {
    // Rounding may make a part larger than it is: the search goes a little beyond the budget, and
    // what it finds is measured in bytes.
    slots_ = slot_ > 1 ? kSlots + kSlots / 20 : static_cast<std::size_t>(bytes);
    times_.assign(chain.size() * (chain.size() + 1) / 2 * (slots_ + 1), kNever);
    for (std::size_t length = 1; length <= chain.size(); ++length)
      for (std::size_t s = 0; s + length <= chain.size(); ++s) fill(s, s + length - 1);
  }

  std::size_t slots() const { return slots_; }
  double time(std::size_t slots) { return row(0, chain_.size() - 1)[slots]; }
  Schedule schedule(std::size_t slots) {
    Schedule result;
    append(result, 0, chain_.size() - 1, slots);
    return result;
  }

 private:
  std::size_t slots_of(std::uint64_t bytes) const {
    return static_cast<std::size_t>(std::lround(double(bytes) / slot_));
  }
  double* row(std::size_t s, std::size_t t) {
    return times_.data() + (t * (t + 1) / 2 + s) * (slots_ + 1);
  }

  double own_time(std::size_t s, Keep keep) const {
    return chain_[s].forward + chain_[s].graph(keep).backward;
  }
  std::size_t graph_slots(std::size_t s, std::size_t t, Keep keep) const {
    return s < t ? slots_of(needs_.graph(s, keep)) : 0;
  }

  void fill(std::size_t s, std::size_t t) {
    double* best = row(s, t);
    const double* rest = s < t ? row(s + 1, t) : nullptr;
    for (const Keep keep : kKeeps) {
      const double own = own_time(s, keep);
      const std::size_t graph = graph_slots(s, t, keep);
      for (std::size_t m = std::max(slots_of(needs_.with_graph(s, t, keep)), graph); m <= slots_;
           ++m)
        best[m] = std::min(best[m], own + (rest ? rest[m - graph] : 0));
    }
    std::uint64_t peak = 0;
    double forward = 0;
    for (std::size_t j = s; j < t; ++j) {  // the input of j + 1 stays
      peak = std::max(peak, needs_.without_graph(s, j, t));
      forward += chain_[j].forward;
      const std::size_t kept = slots_of(needs_.input(j + 1));
      const double *right = row(j + 1, t), *left = row(s, j);
      for (std::size_t m = std::max(slots_of(peak), kept); m <= slots_; ++m)
        best[m] = std::min(best[m], forward + right[m - kept] + left[m]);
    }
  }

  // Follows the choices that gave row(s, t)[m].
  void append(Schedule& schedule, std::size_t s, std::size_t t, std::size_t m) {
    const Choice choice = choice_of(s, t, m);
    append_choice(schedule, s, t, choice);
    if (choice.last == t) {
      if (s < t) append(schedule, s + 1, t, m - graph_slots(s, t, choice.keep));
      return schedule.push_back({Action::kBackward, s, choice.keep});
    }
    append(schedule, choice.last + 1, t, m - slots_of(needs_.input(choice.last + 1)));
    append(schedule, s, choice.last, m);
  }

  // The same sums in the same order as in fill() are equal.
  Choice choice_of(std::size_t s, std::size_t t, std::size_t m) {
    const double time = row(s, t)[m];
    for (const Keep keep : kKeeps) {
      const std::size_t graph = graph_slots(s, t, keep);
      if (m < std::max(slots_of(needs_.with_graph(s, t, keep)), graph)) continue;
      if (own_time(s, keep) + (s < t ? row(s + 1, t)[m - graph] : 0) == time) return {t, keep};
    }
    std::uint64_t peak = 0;
    double forward = 0;
    for (std::size_t j = s; j < t; ++j) {
      peak = std::max(peak, needs_.without_graph(s, j, t));
      forward += chain_[j].forward;
      const std::size_t kept = slots_of(needs_.input(j + 1));
      if (m < std::max(slots_of(peak), kept)) continue;
      if (forward + row(j + 1, t)[m - kept] + row(s, j)[m] == time) return {j};
    }
    return {t};
  }

  std::span<const StepCost> chain_;
  Needs needs_;
  double slot_;  // bytes
  std::size_t slots_;
  std::vector<double> times_;
};

// The same recursion over bytes instead of times.
class Least {
 public:
  explicit Least(std::span<const StepCost> chain)
      : steps_(chain.size()), needs_(chain), parts_(steps_ * steps_) {
    for (std::size_t length = 1; length <= steps_; ++length)
      for (std::size_t s = 0; s + length <= steps_; ++s) fill(s, s + length - 1);
  }

  std::uint64_t bytes() const { return parts_[steps_ - 1].bytes; }
  Schedule schedule() const {
    Schedule result;
    append(result, 0, steps_ - 1);
    return result;
  }

 private:
  struct Part {
    std::uint64_t bytes;
    Choice choice;
  };

  void fill(std::size_t s, std::size_t t) {
    Part best{std::numeric_limits<std::uint64_t>::max(), {t}};
    for (const Keep keep : kKeeps) {
      const std::uint64_t rest = s < t ? needs_.graph(s, keep) + part(s + 1, t).bytes : 0;
      const std::uint64_t bytes = std::max(needs_.with_graph(s, t, keep), rest);
      if (bytes < best.bytes) best = {bytes, {t, keep}};
    }
    std::uint64_t peak = 0;
    for (std::size_t j = s; j < t; ++j) {
      peak = std::max(peak, needs_.without_graph(s, j, t));
      const std::uint64_t bytes =
          std::max({peak, needs_.input(j + 1) + part(j + 1, t).bytes, part(s, j).bytes});
      if (bytes < best.bytes) best = {bytes, {j}};
    }
    parts_[s * steps_ + t] = best;
  }
  void append(Schedule& schedule, std::size_t s, std::size_t t) const {
    const Choice& choice = part(s, t).choice;
    append_choice(schedule, s, t, choice);
    if (choice.last < t) {
      append(schedule, choice.last + 1, t);
      return append(schedule, s, choice.last);
    }
    if (s < t) append(schedule, s + 1, t);
    schedule.push_back({Action::kBackward, s, choice.keep});
  }
  const Part& part(std::size_t s, std::size_t t) const { return parts_[s * steps_ + t]; }

  std::size_t steps_;
  Needs needs_;
  std::vector<Part> parts_;
};

}  // namespace

std::uint64_t least_memory(std::span<const StepCost> chain, std::uint64_t input_bytes) {
  return chain.empty() ? 0 : input_bytes + Least(chain).bytes();
}

Schedule optimal_schedule(std::span<const StepCost> chain, std::uint64_t input_bytes,
                          std::uint64_t budget) {
  if (chain.empty()) return {};
  const Least least(chain);
  if (budget < input_bytes + least.bytes()) return {};
  Programme programme(chain, budget - input_bytes);
  Schedule last;
  for (std::size_t m = programme.slots() + 1; m-- > 0 && programme.time(m) < kNever;) {
    Schedule schedule = programme.schedule(m);
    if (schedule == last) continue;
    if (simulate(schedule, chain, input_bytes).peak <= budget) return schedule;
    last = std::move(schedule);
  }
  return least.schedule();  // within a slot or two of the least there may be no other
}

}  // namespace coldframe::tune
