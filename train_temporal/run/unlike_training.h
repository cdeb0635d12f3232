// Out-of-distribution detection: compares an exam's distance from the exams of a run with the
// distances of the run's held-out exams. It is the Mahalanobis distance (Lee et al. 2018,
// arXiv:1807.03888) of the mean of an exam's frames, scaled to length 1 (Mueller and Hein 2025,
// arXiv:2505.18032: lengths vary more than a normal distribution allows and hide directions). The
// covariance is that of probabilistic PCA (Tipping and Bishop 1999, doi:10.1111/1467-9868.00196):
// the largest few variances, and a common one for all other directions, since there are fewer exams
// than features. The rank is a conformal p-value (Bates et al. 2023, arXiv:2104.08279): the
// fraction of held-out exams at least as far from the exams of their fold that are not held out. A
// run keeps moments and the sorted held-out distances, but no exam's features and no ids.
#pragma once

#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "common/torch/tensor.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/labels/split.h"
#include "train_temporal/report/report.h"
#include "train_temporal/run/ensemble.h"
#include "train_temporal/run/predictions.h"

namespace coldframe::temporal {

inline constexpr const char* kUnlikeFile = "unlike_training.safetensors";  // of a run
inline constexpr double kUnlikeRate = 0.05;  // exams with rank ≤ this are flagged

enum class Trait { kFeatures, kLength, kInterval, kStart };
inline constexpr std::array<const char*, 4> kTraitNames = {"features", "lengths", "intervals",
                                                           "starts"};

struct ExamTraits {
  torch::Tensor features;  // [n, D] mean over each exam's frames, scaled to length 1
  // For each trait except features, [n]: log of the number of frames, log of the seconds between
  // frames, and log_elapsed() of the first frame. NaN: unknown.
  std::array<std::vector<double>, kTraitNames.size()> numbers;
};
// The traits of exams of a dataset that was loaded from a cache, from their clean features.
ExamTraits traits_of(const Dataset& dataset, const std::vector<std::size_t>& exams);

struct OodScore {
  double distance = 0;          // features: squared, divided by D; others: in deviations
  double rank = 1;              // NaN if unknown
  double middle_rank = 1;       // mid-rank: counts ties half
  std::size_t held_out = 0;     // number of exams among which it is ranked
  Trait by = Trait::kFeatures;  // the trait whose rank it is

  bool flagged() const { return rank <= kUnlikeRate; }
};

class UnlikeTraining {
 public:
  // Uses the exams and held-out parts of the first repeat; splits index the cache's exams.
  UnlikeTraining(const Dataset& dataset, const std::vector<Split>& splits);
  // Empty if the run could not write the file. DataError if it is damaged or has another number of
  // features.
  static std::optional<UnlikeTraining> read(const std::filesystem::path& run,
                                            std::int64_t dimension);
  void write(const std::filesystem::path& file) const;

  std::vector<OodScore> judge(const ExamTraits& exams, Trait trait) const;  // [n]
  // Judges by the inputs of models: the features and those of `times` that the held-out exams had.
  // The lowest rank decides, multiplied by the number of traits (Bonferroni), so that no more exams
  // are flagged than with a single trait.
  std::vector<OodScore> judge_inputs(const ExamTraits& exams,
                                     const std::vector<Trait>& times) const;

 private:
  struct Moments {
    torch::Tensor mean, deviation;  // [D]
    torch::Tensor axes, variance;   // [k, D], [k + 1]; the last is that of all other directions
    torch::Tensor pace;  // [3, 2] mean and deviation of each trait in ExamTraits::numbers
  };
  UnlikeTraining() = default;
  static Moments fit(const ExamTraits& exams);
  static std::vector<double> distances(const Moments& moments, const ExamTraits& exams,
                                       Trait trait);

  Moments moments_;
  std::array<std::vector<double>, kTraitNames.size()> held_out_;  // distances by Trait, ascending
};

// Writes the file of a run. Errors become warnings, so that they do not end a finished training.
void write_unlike_training(const Dataset& dataset, const std::vector<Split>& splits,
                           const std::filesystem::path& file);

// What predict and evaluate report about exams out of distribution.

// Count of flagged exams, and a warning if they exceed the rate, or if too few exams were held out
// to flag any; empty if that many could be chance.
std::size_t count_flagged(const std::vector<OodScore>& exams);
std::string warn_of_unlike(const std::vector<OodScore>& exams);

// The time traits that the models were trained with, for judge_inputs().
std::vector<Trait> times_shown_to(const Ensemble& ensemble);

// judge_inputs() of these exams; empty for a run or bundle without the file.
std::vector<OodScore> judge_exams(const std::filesystem::path& run, const Dataset& dataset,
                                  const std::vector<std::size_t>& exams,
                                  const std::vector<Trait>& times);

// Adds the columns unlike_training and unlike_rank; none if `unlike` is empty. Else `unlike` must
// cover all exams of the table's rows, in their order.
void add_unlike(PredictionTable& table, const std::vector<OodScore>& unlike);

// A row for each trait that the run's held-out exams have.
std::vector<CohortShift> cohort_shift(const UnlikeTraining& unlike, const ExamTraits& exams);

}  // namespace coldframe::temporal
