#include "train_temporal/tune/schedule/optimal_schedule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

namespace coldframe::tune {
namespace {

constexpr std::size_t kSlots = 1000;  // the paper has 500

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

// What goes first on the way through a part. Of equally good choices the first in this order goes.
struct Choice {
  std::size_t without_graph = 0;  // so many steps run before an input stays; 0: the first step
  Keep keep = Keep::kWhole;       // runs with its graph, which keeps so much

  auto operator<=>(const Choice&) const = default;
};

void append_choice(Schedule& schedule, std::size_t s, const Choice& choice) {
  if (choice.without_graph == 0)
    return schedule.push_back({Action::kForwardWithGraph, s, choice.keep});
  for (std::size_t i = 0; i < choice.without_graph; ++i)
    schedule.push_back({i == 0 ? Action::kForwardKeepInput : Action::kForward, s + i});
}

// A value for each part of the chain; parts of equal steps share one.
template <class Value>
class OfParts {
 public:
  // `find(*this, s, t)` may ask for the parts within its part.
  template <class Find>
  OfParts(std::span<const StepCost> chain, const Find& find)
      : places_(chain.size() * (chain.size() + 1) / 2) {
    std::vector<std::size_t> alike(chain.size());  // steps up to this one that equal those before
    for (std::size_t i = 1; i < chain.size(); ++i)
      alike[i] = chain[i] == chain[i - 1] ? alike[i - 1] + 1 : 0;
    for (std::size_t length = 1; length <= chain.size(); ++length) {
      for (std::size_t s = 0, t = length - 1; t < chain.size(); ++s, ++t) {
        const bool same_input = s > 1 && chain[s - 1].output == chain[s - 2].output;
        const bool known = same_input && alike[t] >= length;
        places_[place(s, t)] = known ? places_[place(s - 1, t - 1)] : values_.size();
        if (!known) values_.push_back(find(*this, s, t));
      }
    }
  }

  const Value& operator()(std::size_t s, std::size_t t) const {
    return values_[places_[place(s, t)]];
  }

 private:
  static std::size_t place(std::size_t s, std::size_t t) { return t * (t + 1) / 2 + s; }

  std::vector<std::size_t> places_;
  std::vector<Value> values_;
};

// The shortest time of every part of the chain in every number of slots.
class Programme {
 public:
  Programme(std::span<const StepCost> chain, std::uint64_t bytes)
      : chain_(chain),
        needs_(chain),
        slot_(std::max(1.0, double(bytes) / kSlots)),
        // Rounding may make a part larger than it is: the search goes a little beyond the budget,
        // and what it finds is measured in bytes.
        slots_(slot_ > 1 ? kSlots + kSlots / 20 : static_cast<std::int64_t>(bytes)),
        offers_(static_cast<std::size_t>(slots_) + 1, kNoOffer),
        offered_(offers_.size() / 64 + 1),
        parts_(chain, [this](const OfParts<Stairs>& parts, std::size_t s, std::size_t t) {
          return stairs(parts, s, t);
        }) {}

  std::int64_t slots() const { return slots_; }
  std::int64_t least_slots() const { return parts_(0, chain_.size() - 1).front().slots; }
  // The fastest, and how many of the slots it can do without: with fewer ones it is the same.
  std::pair<Schedule, std::int64_t> schedule(std::int64_t slots) const {
    Schedule result;
    const std::int64_t spare = append(result, 0, chain_.size() - 1, slots);
    return {std::move(result), spare};
  }

 private:
  // From so many slots on until the next stair a part takes this time.
  struct Stair {
    std::int64_t slots;
    double time;
    Choice choice;
  };
  using Stairs = std::vector<Stair>;  // upwards; the last one is beyond all slots
  static constexpr Stair kNoOffer{
      std::numeric_limits<std::int64_t>::max() / 2, std::numeric_limits<double>::infinity(), {}};

  std::int64_t slots_of(std::uint64_t bytes) const { return std::lround(double(bytes) / slot_); }
  std::int64_t graph_slots(std::size_t s, std::size_t t, Keep keep) const {
    return s < t ? slots_of(needs_.graph(s, keep)) : 0;
  }

  Stairs stairs(const OfParts<Stairs>& parts, std::size_t s, std::size_t t) {
    const Stairs nothing{{0, 0, {}}};
    for (const Keep keep : kKeeps) {
      const double own = chain_[s].forward + chain_[s].graph(keep).backward;
      const std::int64_t need = slots_of(needs_.with_graph(s, t, keep));
      const std::int64_t graph = graph_slots(s, t, keep);
      for (const Stair& rest : s < t ? parts(s + 1, t) : nothing)
        offer({std::max(need, rest.slots + graph), own + rest.time, {0, keep}});
    }
    std::uint64_t peak = 0;
    double forward = 0;
    for (std::size_t j = s; j < t; ++j) {  // the input of j + 1 stays
      peak = std::max(peak, needs_.without_graph(s, j, t));
      forward += chain_[j].forward;
      const std::int64_t kept = slots_of(needs_.input(j + 1));
      const Stair *right = parts(j + 1, t).data(), *left = parts(s, j).data();
      for (std::int64_t m = std::max({slots_of(peak), kept + right->slots, left->slots});
           m <= slots_; m = std::min(kept + right[1].slots, left[1].slots)) {
        while (kept + right[1].slots <= m) ++right;
        while (left[1].slots <= m) ++left;
        offer({m, forward + right->time + left->time, {j + 1 - s}});
      }
    }
    return best_offers();
  }

  void offer(const Stair& stair) {
    if (stair.slots > slots_) return;
    const auto at = static_cast<std::size_t>(stair.slots);
    if (stair.time >= offers_[at].time) return;
    offers_[at] = stair;
    offered_[at / 64] |= std::uint64_t{1} << at % 64;
  }
  // Takes what is better than all offers of fewer slots.
  Stairs best_offers() {
    Stairs best;
    best.reserve(64);
    const auto rank = [](const Stair& stair) { return std::tie(stair.time, stair.choice); };
    for (std::size_t word = 0; word < offered_.size(); ++word) {
      for (std::uint64_t bits = std::exchange(offered_[word], 0); bits != 0; bits &= bits - 1) {
        Stair& each = offers_[64 * word + static_cast<std::size_t>(std::countr_zero(bits))];
        if (best.empty() || rank(each) < rank(best.back())) best.push_back(each);
        each = kNoOffer;
      }
    }
    best.push_back(kNoOffer);
    return best;
  }

  // Gives the slots to spare.
  std::int64_t append(Schedule& schedule, std::size_t s, std::size_t t, std::int64_t slots) const {
    const Stairs& all = parts_(s, t);
    const auto& [least, time, choice] =
        *(std::ranges::upper_bound(all, slots, {}, &Stair::slots) - 1);
    std::int64_t spare = slots - least;
    append_choice(schedule, s, choice);
    if (choice.without_graph > 0) {
      const std::size_t next = s + choice.without_graph;
      spare = std::min(spare, append(schedule, next, t, slots - slots_of(needs_.input(next))));
      return std::min(spare, append(schedule, s, next - 1, slots));
    }
    if (s < t)
      spare = std::min(spare, append(schedule, s + 1, t, slots - graph_slots(s, t, choice.keep)));
    schedule.push_back({Action::kBackward, s, choice.keep});
    return spare;
  }

  std::span<const StepCost> chain_;
  Needs needs_;
  double slot_;  // bytes
  std::int64_t slots_;
  Stairs offers_;  // the best for each number of slots, of the part that is looked at
  std::vector<std::uint64_t> offered_;  // a bit for each of these that is there
  OfParts<Stairs> parts_;
};

// The same recursion over bytes instead of times.
class Least {
 public:
  explicit Least(std::span<const StepCost> chain)
      : last_(chain.size() - 1),
        needs_(chain),
        parts_(chain, [this](const OfParts<Part>& parts, std::size_t s, std::size_t t) {
          return part(parts, s, t);
        }) {}

  std::uint64_t bytes() const { return parts_(0, last_).bytes; }
  Schedule schedule() const {
    Schedule result;
    append(result, 0, last_);
    return result;
  }

 private:
  struct Part {
    std::uint64_t bytes;
    Choice choice;
  };

  Part part(const OfParts<Part>& parts, std::size_t s, std::size_t t) const {
    Part best{std::numeric_limits<std::uint64_t>::max(), {}};
    for (const Keep keep : kKeeps) {
      const std::uint64_t rest = s < t ? needs_.graph(s, keep) + parts(s + 1, t).bytes : 0;
      const std::uint64_t bytes = std::max(needs_.with_graph(s, t, keep), rest);
      if (bytes < best.bytes) best = {bytes, {0, keep}};
    }
    std::uint64_t peak = 0;
    for (std::size_t j = s; j < t; ++j) {
      peak = std::max(peak, needs_.without_graph(s, j, t));
      const std::uint64_t bytes =
          std::max({peak, needs_.input(j + 1) + parts(j + 1, t).bytes, parts(s, j).bytes});
      if (bytes < best.bytes) best = {bytes, {j + 1 - s}};
    }
    return best;
  }
  void append(Schedule& schedule, std::size_t s, std::size_t t) const {
    const Choice& choice = parts_(s, t).choice;
    append_choice(schedule, s, choice);
    if (choice.without_graph > 0) {
      append(schedule, s + choice.without_graph, t);
      return append(schedule, s, s + choice.without_graph - 1);
    }
    if (s < t) append(schedule, s + 1, t);
    schedule.push_back({Action::kBackward, s, choice.keep});
  }

  std::size_t last_;
  Needs needs_;
  OfParts<Part> parts_;
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
  const Programme programme(chain, budget - input_bytes);
  for (std::int64_t slots = programme.slots(); slots >= programme.least_slots();) {
    auto [schedule, spare] = programme.schedule(slots);
    if (simulate(schedule, chain, input_bytes).peak <= budget) return schedule;
    slots -= spare + 1;
  }
  return least.schedule();  // within a slot or two of the least there may be no other
}

}  // namespace coldframe::tune
