#include "train_temporal/splits/split_assign.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>

#include "common/threads/counter_random.h"

namespace coldframe::temporal {
namespace {

// An assignment under construction. What is balanced has C + 1 dimensions: the exams of each class
// and the patients.
class Assignment {
 public:
  Assignment(std::span<const PatientGroup> groups, std::span<const double> shares)
      : groups_(groups),
        shares_(shares),
        dimensions_(groups.front().per_class.size() + 1),
        total_(dimensions_, 0.0),
        part_(groups.size(), 0),
        filled_(shares.size(), std::vector<double>(dimensions_, 0.0)),
        holders_(shares.size(), std::vector<std::size_t>(dimensions_, 0)) {
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (std::size_t d = 0; d < dimensions_; ++d) total_[d] += amount(g, d);
    }
  }

  // Large and one-sided patients first, while there is room to balance them; chance decides among
  // equals.
  void fill(CounterRandom random) {
    std::vector<std::size_t> order(groups_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    random.shuffle(order);
    std::ranges::stable_sort(order, std::ranges::greater{},
                             [&](std::size_t g) { return weight(g); });
    for (std::size_t g : order) put(g, cheapest_part(g));
  }

  // Moves patients into parts that lack a class, as long as that leaves no more lacking altogether;
  // twice as often as there can be gaps, since moves that change nothing may go round in a circle.
  void repair() {
    for (std::size_t moves = 2 * shares_.size() * dimensions_; moves > 0 && lacking() > 0;
         --moves) {
      const double before = lacking();
      Move best{0, 0, before - 1e-9, std::numeric_limits<double>::infinity()};
      for (std::size_t part = 0; part < shares_.size(); ++part) {
        for (std::size_t g = 0; g < groups_.size(); ++g) {
          if (part_[g] != part && brings_missing_class(g, part)) consider(g, part, best);
        }
      }
      if (best.cost == std::numeric_limits<double>::infinity()) return;
      take(best.group);
      put(best.group, best.part);
    }
  }

  // Shares of the parts that lack a class, summed over classes: what repair() lowers.
  double lacking() const {
    double sum = 0;
    for (std::size_t part = 0; part < shares_.size(); ++part) {
      for (std::size_t d = 0; d < dimensions_; ++d) sum += holders_[part][d] ? 0 : shares_[part];
    }
    return sum;
  }

  // Least when every part is filled to its share in every dimension.
  double cost() const {
    double sum = 0;
    for (std::size_t part = 0; part < shares_.size(); ++part) {
      for (std::size_t d = 0; d < dimensions_; ++d) {
        if (total_[d] == 0) continue;
        const double share = filled_[part][d] / total_[d];
        sum += share * share / shares_[part];
      }
    }
    return sum;
  }

  const std::vector<std::size_t>& parts() const { return part_; }

 private:
  struct Move {
    std::size_t group, part;
    double lacking, cost;
  };

  double amount(std::size_t group, std::size_t dimension) const {
    const auto& per_class = groups_[group].per_class;
    return dimension < per_class.size() ? static_cast<double>(per_class[dimension]) : 1.0;
  }

  double weight(std::size_t group) const {
    double sum = 0;
    for (std::size_t d = 0; d < dimensions_; ++d) {
      const double share = total_[d] > 0 ? amount(group, d) / total_[d] : 0;
      sum += share * share;
    }
    return sum;
  }

  std::size_t cheapest_part(std::size_t group) const {
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t part = 0; part < shares_.size(); ++part) {
      double rise = 0;
      for (std::size_t d = 0; d < dimensions_; ++d) {
        const double now = filled_[part][d], added = amount(group, d);
        if (added > 0) rise += added * (2 * now + added) / (shares_[part] * total_[d] * total_[d]);
      }
      if (rise < least) {
        least = rise;
        best = part;
      }
    }
    return best;
  }

  bool brings_missing_class(std::size_t group, std::size_t part) const {
    for (std::size_t d = 0; d < dimensions_; ++d) {
      if (amount(group, d) > 0 && holders_[part][d] == 0) return true;
    }
    return false;
  }

  void consider(std::size_t group, std::size_t part, Move& best) {
    const std::size_t home = part_[group];
    take(group);
    put(group, part);
    const double now = lacking(), price = cost();
    if (now < best.lacking - 1e-9 || (now <= best.lacking + 1e-9 && price < best.cost)) {
      best = {group, part, now, price};
    }
    take(group);
    put(group, home);
  }

  void put(std::size_t group, std::size_t part) { change(group, part, +1); }
  void take(std::size_t group) { change(group, part_[group], -1); }
  void change(std::size_t group, std::size_t part, int sign) {
    part_[group] = part;
    for (std::size_t d = 0; d < dimensions_; ++d) {
      if (amount(group, d) == 0) continue;
      filled_[part][d] += sign * amount(group, d);
      holders_[part][d] += static_cast<std::size_t>(sign);
    }
  }

  std::span<const PatientGroup> groups_;
  std::span<const double> shares_;
  std::size_t dimensions_;
  std::vector<double> total_;                      // [dimension]
  std::vector<std::size_t> part_;                  // [group]
  std::vector<std::vector<double>> filled_;        // [part][dimension]
  std::vector<std::vector<std::size_t>> holders_;  // [part][dimension] patients that have any
};

}  // namespace

std::vector<PatientGroup> group_by_patient(const Targets& targets,
                                           const std::vector<std::string>& patients,
                                           std::span<const std::size_t> exams) {
  std::map<std::string, PatientGroup> by_patient;
  for (std::size_t exam : exams) {
    if (!targets.labeled(exam)) continue;
    PatientGroup& group = by_patient[patients[exam]];
    group.patient = patients[exam];
    group.exams.push_back(exam);
    const std::vector<std::size_t> count = targets.count_strata(exam);
    group.per_class.resize(count.size(), 0);
    for (std::size_t c = 0; c < count.size(); ++c) group.per_class[c] += count[c];
  }
  std::vector<PatientGroup> groups;
  for (auto& [patient, group] : by_patient) groups.push_back(std::move(group));
  return groups;
}

std::vector<std::size_t> assign_groups(std::span<const PatientGroup> groups,
                                       std::span<const double> shares,
                                       std::initializer_list<std::uint64_t> key) {
  if (groups.empty()) return {};
  constexpr std::uint64_t kAttempts = 8;  // the greedy order is partly chance: the best of a few
  std::vector<std::size_t> best;
  double least_lacking = 0, least_cost = 0;
  for (std::uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
    Assignment assignment(groups, shares);
    CounterRandom keyed(key);
    assignment.fill(CounterRandom({keyed.next(), attempt}));
    assignment.repair();
    const double lacking = assignment.lacking(), cost = assignment.cost();
    if (best.empty() || lacking < least_lacking - 1e-9 ||
        (lacking <= least_lacking + 1e-9 && cost < least_cost)) {
      best = assignment.parts();
      least_lacking = lacking;
      least_cost = cost;
    }
  }
  return best;
}

}  // namespace coldframe::temporal
