#include "train_temporal/run/near_copies.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "common/numbers/quantile.h"
#include "common/text/text.h"
#include "train_temporal/data/feature_source.h"

namespace coldframe::temporal {

namespace {

constexpr double kNobody = std::numeric_limits<double>::infinity();
constexpr double kLargestRatio = 0.7;  // of both ratios
constexpr double kByChance = 0.1;      // exams of a cohort whose second ratio is as small by chance
constexpr std::size_t kFewestExams = 8, kMostExams = 1 << 14;
constexpr std::int64_t kRowsAtOnce = 512;  // of exams that are compared with all at a time

FrameMoments frame_moments(const Dataset& dataset, const std::vector<std::size_t>& exams) {
  std::vector<torch::Tensor> means, variances;
  visit_exams(dataset, exams, [&](std::size_t, const torch::Tensor& rows) {
    torch::Tensor frames = rows.nan_to_num();  // streams that lack
    frames = frames / frames.norm(2, 1, true).clamp_min(1e-12);
    means.push_back(frames.mean(0));
    variances.push_back((frames - means.back()).square().mean(0));
  });
  return {torch::stack(means), torch::stack(variances)};
}

// Of each exam the nearest one of another patient, its distance, and the distances of the nearest
// ones of a third and of a fourth patient; infinite if there is none.
struct NearestExams {
  std::vector<std::size_t> exam;
  std::vector<double> distance, next, after_next;
};

NearestExams nearest_exams(const torch::Tensor& exams, const torch::Tensor& patient) {
  NearestExams found;
  for (std::int64_t from = 0; from < exams.size(0); from += kRowsAtOnce) {
    torch::Tensor distance = torch::cdist(exams.slice(0, from, from + kRowsAtOnce), exams);
    // The nearest one of each row, of nobody of these patients or of those before.
    const auto nearest_but = [&](const torch::Tensor& patients) {
      distance.masked_fill_(patients.unsqueeze(1) == patient, kNobody);
      return distance.min(1);
    };
    const auto [nearest, place] = nearest_but(patient.slice(0, from, from + kRowsAtOnce));
    const auto [next, second] = nearest_but(patient.index_select(0, place));
    const auto [after_next, third] = nearest_but(patient.index_select(0, second));
    for (std::int64_t i = 0; i < place.size(0); ++i) {
      found.exam.push_back(static_cast<std::size_t>(place[i].item<std::int64_t>()));
      found.distance.push_back(nearest[i].item<double>());
      found.next.push_back(next[i].item<double>());
      found.after_next.push_back(after_next[i].item<double>());
    }
  }
  return found;
}

// The largest ratio of an exam's distances that chance does not explain.
double largest_ratio(const NearestExams& found) {
  std::vector<double> logarithms;  // of the inverse
  for (std::size_t i = 0; i < found.exam.size(); ++i)
    if (found.next[i] > 0 && std::isfinite(found.after_next[i]))
      logarithms.push_back(std::log(found.after_next[i] / found.next[i]));
  if (logarithms.size() < kFewestExams) return 0;
  const double per_dimension = 2 * median(logarithms) / std::log(2.0);  // 1 / m
  const auto exams = static_cast<double>(found.exam.size());
  return std::min(kLargestRatio, std::pow(kByChance / exams, per_dimension));
}

}  // namespace

std::vector<NearCopies> near_copies(const FrameMoments& exams,
                                    const std::vector<std::size_t>& patient) {
  std::vector<NearCopies> copies;
  if (patient.size() < kFewestExams) return copies;
  const torch::Tensor deviation = exams.mean.std(0, /*unbiased=*/false);
  const torch::Tensor unit = deviation.clamp_min(0.01 * deviation.mean().item<double>() + 1e-12);
  const torch::Tensor standard = (exams.mean - exams.mean.mean(0)) / unit;
  const torch::Tensor spread = (exams.variance / unit.square()).sum(1).sqrt();
  const std::vector<std::int64_t> numbers(patient.begin(), patient.end());
  const NearestExams found = nearest_exams(standard, torch::tensor(numbers));
  const double limit = largest_ratio(found);
  for (std::size_t a = 0; a < patient.size(); ++a) {
    const std::size_t b = found.exam[a];
    if (b <= a || found.exam[b] != a) continue;
    const auto row = static_cast<std::int64_t>(a), other = static_cast<std::int64_t>(b);
    const double distance = (standard[row] - standard[other]).norm().item<double>();
    const double next = std::min(found.next[a], found.next[b]);
    const double own = std::min(spread[row].item<double>(), spread[other].item<double>());
    if (distance > 0 && std::isfinite(next) && distance <= limit * next &&
        distance <= kLargestRatio * own)
      copies.push_back({a, b, distance / next});
  }
  std::ranges::sort(copies, {}, &NearCopies::difference);
  return copies;
}

std::string warn_of_near_copies(const Dataset& dataset, const Cohort& cohort,
                                const std::vector<std::size_t>& exams) {
  constexpr std::size_t kTold = 3;
  if (exams.size() < kFewestExams || exams.size() > kMostExams) return {};
  std::vector<std::size_t> patient;
  for (const std::size_t exam : exams) patient.push_back(cohort.patient_number[exam]);
  const auto copies = near_copies(frame_moments(dataset, exams), patient);
  if (copies.empty()) return {};
  std::vector<std::string> told;
  for (const NearCopies& pair : copies)
    if (told.size() < kTold)
      told.push_back(concat("'", cohort.exams()[exams[pair.a]].id, "' and '",
                            cohort.exams()[exams[pair.b]].id, "'"));
  return concat(
      plural(copies.size(), "pair"),
      " of exams of different patients with nearly the same features: ", join(told, "; "),
      copies.size() > kTold ? "; …" : "", " (the closest lie at ",
      fixed(copies.front().difference, 2),
      " of their distance from the next exam): look at them, and give them one patient if "
      "they are of one; else what is held out may have been trained on, and the figures "
      "may be too good");
}

}  // namespace coldframe::temporal
