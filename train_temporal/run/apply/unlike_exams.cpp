#include "train_temporal/run/apply/unlike_exams.h"

#include <algorithm>
#include <array>
#include <boost/math/distributions/binomial.hpp>
#include <cmath>
#include <limits>
#include <set>

#include "common/text/text.h"

namespace coldframe::temporal {
namespace {

// In the warning, by Trait; lengths decide nothing.
constexpr std::array<const char*, kTraitNames.size()> kTraitWords = {
    "features", "lengths", "intervals between frames", "starts after the zero"};

// The share of chance that so many of n exams or more are flagged, at the rate of held-out ones.
double chance_of(std::size_t flagged, std::size_t n) {
  if (flagged == 0) return 1;
  const boost::math::binomial distribution(static_cast<double>(n), kUnlikeRate);
  return cdf(complement(distribution, static_cast<double>(flagged) - 1));
}

}  // namespace

std::size_t count_flagged(const std::vector<OodScore>& exams) {
  return static_cast<std::size_t>(std::ranges::count_if(exams, &OodScore::flagged));
}

std::string warn_of_unlike(const std::vector<OodScore>& exams) {
  constexpr double kChance = 0.05 + 1e-9;
  if (exams.empty()) return {};
  const std::size_t held_out = exams.front().held_out;
  if (1 / static_cast<double>(held_out + 1) > kUnlikeRate) {
    return concat("the training held out ", plural(held_out, "exam"),
                  ", too few to tell exams unlike the training data, of which none is flagged; ",
                  "that takes at least ", std::round(1 / kUnlikeRate) - 1);
  }
  const std::size_t flagged = count_flagged(exams);
  if (flagged == 0 || chance_of(flagged, exams.size()) > kChance) return {};
  std::set<Trait> by;
  for (const OodScore& exam : exams)
    if (exam.flagged()) by.insert(exam.by);
  std::vector<std::string> what;
  for (const Trait trait : by) what.push_back(kTraitWords[static_cast<std::size_t>(trait)]);
  return concat(flagged, " of ", plural(exams.size(), "exam"), " unlike the training data: their ",
                join(what, " or "), " are as far from it as at most ", fixed(100 * kUnlikeRate, 0),
                " % of the run's held-out exams; nothing is known of how well the model does on "
                "these (another device, view, kind of image or unit of time?)");
}

std::vector<Trait> times_shown_to(const Ensemble& ensemble) {
  std::vector<Trait> times;
  if (ensemble.sees_times()) times.push_back(Trait::kInterval);
  if (ensemble.card().config.elapsed) times.push_back(Trait::kStart);
  return times;
}

std::vector<OodScore> judge_exams(const std::filesystem::path& run, const Dataset& dataset,
                                  const std::vector<std::size_t>& exams,
                                  const std::vector<Trait>& times) {
  const auto unlike = UnlikeTraining::read(run, dataset.cache->dimension());
  return unlike ? unlike->judge_inputs(traits_of(dataset, exams), times) : std::vector<OodScore>();
}

void add_unlike(PredictionTable& table, const std::vector<OodScore>& unlike) {
  if (unlike.empty()) return;
  PredictionTable::Column distance{"unlike_training", {}}, rank{"unlike_rank", {}};
  std::size_t n = 0;
  for (std::size_t i = 0; i < table.rows.size(); ++i) {
    if (i > 0 && table.rows[i].exam != table.rows[i - 1].exam) ++n;
    distance.values.push_back(unlike[n].distance);
    rank.values.push_back(unlike[n].rank);
  }
  table.more.push_back(std::move(distance));
  table.more.push_back(std::move(rank));
}

std::vector<CohortShift> cohort_shift(const UnlikeTraining& unlike, const ExamTraits& exams) {
  std::vector<CohortShift> shifts;
  for (std::size_t t = 0; t < kTraitNames.size(); ++t) {
    const std::vector<OodScore> found = unlike.judge(exams, static_cast<Trait>(t));
    if (!found.empty() && found.front().held_out == 0) continue;
    std::vector<double> ranks;
    for (const OodScore& exam : found) {
      if (!std::isnan(exam.rank)) ranks.push_back(exam.middle_rank);
    }
    std::ranges::sort(ranks);
    const std::size_t n = ranks.size();
    shifts.push_back({kTraitNames[t], n, count_flagged(found),
                      n == 0 ? std::numeric_limits<double>::quiet_NaN()
                             : (ranks[(n - 1) / 2] + ranks[n / 2]) / 2});
  }
  return shifts;
}

}  // namespace coldframe::temporal
