// Figures without each patient.
#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "common/threads/parallel.h"
#include "train_temporal/metrics/intervals/intervals.h"

namespace coldframe::temporal {
namespace {

// More patients than these are left out some at a time, so that the work grows with the exams
// alone.
constexpr std::size_t kMostBlocks = 1000;

// The exams ordered by score, so that resamples of a binary task arrive sorted at the rank
// statistics.
FoldScores sorted_by_score(const FoldScores& fold) {
  if (fold.exams.width != 2) return fold;
  std::vector<std::size_t> order(fold.exams.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const bool finite =
      std::ranges::all_of(fold.exams.predicted, [](double p) { return std::isfinite(p); });
  if (finite) {
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      return fold.exams.score(a, 1) > fold.exams.score(b, 1);
    });
  }
  FoldScores sorted{fold.repeat, fold.fold, exams_at(fold.exams, order), {}};
  for (std::size_t exam : order) sorted.patient.push_back(fold.patient[exam]);
  return sorted;
}

// The exams of `from` whose patients are not in `block`.
ScoredExams without(const FoldScores& from, const std::vector<std::size_t>& block_of,
                    std::size_t block) {
  std::vector<std::size_t> left;
  for (std::size_t i = 0; i < from.exams.size(); ++i) {
    if (block_of[from.patient[i]] != block) left.push_back(i);
  }
  return exams_at(from.exams, left);
}

// A patient's place: the fold that holds it out first, and the class of most of its exams.
struct Place {
  std::size_t fold = 0;
  std::map<int, std::size_t> exams;

  int of_class() const {
    const auto most =
        std::ranges::max_element(exams, {}, [](const auto& each) { return each.second; });
    return most == exams.end() ? -1 : most->first;
  }
};

std::map<std::size_t, Place> places_of(std::span<const FoldScores> folds) {
  std::map<std::size_t, Place> places;
  for (std::size_t f = 0; f < folds.size(); ++f) {
    for (std::size_t patient : folds[f].held_out()) places.try_emplace(patient, Place{f, {}});
    for (std::size_t i = 0; i < folds[f].exams.size(); ++i) {
      Place& place = places[folds[f].patient[i]];
      if (place.fold == f) ++place.exams[folds[f].exams.label[i]];
    }
  }
  return places;
}

// The held-out parts of one repeat are pooled. Parts are sorted, so that ranks need no sorting
// without a patient either.
struct Parts {
  std::vector<FoldScores> folds, pooled;

  explicit Parts(std::span<const FoldScores> given) : pooled(pooled_by_repeat(given)) {
    for (const FoldScores& fold : given) folds.push_back(sorted_by_score(fold));
    for (FoldScores& pool : pooled) pool = sorted_by_score(pool);
  }
  // A repeat of one fold is pooled as it is.
  bool are_pooled() const { return folds.size() == pooled.size(); }
};

std::vector<std::vector<MetricValue>> figures_of(const std::vector<FoldScores>& parts,
                                                 const std::vector<Metric>& metrics) {
  std::vector<std::vector<MetricValue>> all(metrics.size());
  for (const FoldScores& part : parts) {
    const std::vector<MetricValue> figures = compute_metrics(metrics, part.exams);
    for (std::size_t m = 0; m < metrics.size(); ++m) all[m].push_back(figures[m]);
  }
  return all;
}

std::vector<double> values_of(const std::vector<MetricValue>& figures) {
  std::vector<double> values;
  for (const MetricValue& figure : figures) values.push_back(figure.value);
  return values;
}

// Metrics without an interval are not computed without patients.
std::vector<std::size_t> bounded_of(const std::vector<Metric>& metrics) {
  std::vector<std::size_t> bounded;
  for (std::size_t m = 0; m < metrics.size(); ++m)
    if (metrics[m]->shape != Shape::kNone) bounded.push_back(m);
  return bounded;
}

// Writes the figures of the parts that hold exams of the block, without these.
void leave_out(MetricTable::Block& block, const Parts& parts, const std::vector<Metric>& metrics,
               const std::vector<std::size_t>& blocks, std::size_t number) {
  const auto holds = [&](const FoldScores& part) {
    return std::ranges::any_of(part.patient, [&](std::size_t p) { return blocks[p] == number; });
  };
  const std::vector<std::size_t> bounded = bounded_of(metrics);
  std::vector<Metric> computed;
  for (const std::size_t m : bounded) computed.push_back(metrics[m]);
  const auto write = [&](const std::vector<FoldScores>& from, auto member) {
    for (std::size_t part = 0; part < from.size(); ++part) {
      if (!holds(from[part])) continue;
      const auto figures = compute_metrics(computed, without(from[part], blocks, number));
      for (std::size_t i = 0; i < bounded.size(); ++i)
        (block.without[bounded[i]].*member)[part] = figures[i].value;
    }
  };
  write(parts.folds, &MetricTable::Row::fold);
  if (!parts.are_pooled()) return write(parts.pooled, &MetricTable::Row::pooled);
  for (MetricTable::Row& row : block.without) row.pooled = row.fold;
}

// The class with the fewest pairs decides; see MetricTable::pairs. A patient with exams of the
// class and of others is a pair of its own.
std::size_t count_pairs(const std::map<std::size_t, Place>& places, std::size_t classes) {
  std::size_t least = places.size();
  for (std::size_t c = 0; c < classes; ++c) {
    struct Count {
      std::size_t both = 0, this_class = 0, others = 0;
    };
    std::map<std::size_t, Count> in_fold;
    for (const auto& [patient, place] : places) {
      if (place.exams.empty()) continue;
      const bool has = place.exams.contains(static_cast<int>(c));
      Count& count = in_fold[place.fold];
      ++(has && place.exams.size() > 1 ? count.both : has ? count.this_class : count.others);
    }
    std::size_t pairs = 0;
    for (const auto& [fold, count] : in_fold) {
      pairs += count.both + std::min(count.this_class, count.others);
    }
    least = std::min(least, pairs);
  }
  return least;
}

}  // namespace

MetricTable leave_out_patients(std::span<const FoldScores> folds, double level,
                               std::span<const Metric> only) {
  MetricTable table;
  table.level = level;
  if (folds.empty()) return table;
  const ScoredExams& first = folds.front().exams;
  table.metrics.assign(only.begin(), only.end());
  if (only.empty()) table.metrics = metrics_for(first);
  const Parts parts(folds);
  table.per_fold = figures_of(parts.folds, table.metrics);
  table.pooled = parts.are_pooled() ? table.per_fold : figures_of(parts.pooled, table.metrics);
  std::vector<MetricTable::Row> as_they_are;
  for (std::size_t m = 0; m < table.metrics.size(); ++m) {
    as_they_are.push_back({values_of(table.per_fold[m]), values_of(table.pooled[m])});
  }
  const auto places = places_of(folds);
  table.patients_of_class.assign(first.label_count(), 0);
  for (const auto& [patient, place] : places) {
    table.patients += !place.exams.empty();
    for (const auto& [of_class, exams] : place.exams) {
      ++table.patients_of_class[static_cast<std::size_t>(of_class)];
    }
  }
  table.pairs = count_pairs(places, first.label_count());
  std::vector<std::size_t> block_of(places.empty() ? 0 : places.rbegin()->first + 1);
  std::size_t next = 0;
  for (const auto& [patient, place] : places) {
    block_of[patient] = next++ % kMostBlocks;
    if (block_of[patient] < table.blocks.size()) continue;
    const bool alone = places.size() <= kMostBlocks;
    table.blocks.push_back({alone ? place.fold : 0, alone ? place.of_class() : 0, as_they_are});
  }
  parallel_for(table.blocks.size(), [&](std::size_t b) {
    leave_out(table.blocks[b], parts, table.metrics, block_of, b);
  });
  return table;
}

}  // namespace coldframe::temporal
