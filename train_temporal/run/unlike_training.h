// How far an exam lies from those of a run, held against how far its held-out exams lay. The
// distance is Mahalanobis' (Lee et al. 2018, arXiv:1807.03888), of the mean of an exam's frames
// scaled to length 1 (Mueller and Hein 2025, arXiv:2505.18032: lengths vary more than a normal
// distribution allows and hide directions), with the exams' covariance as probabilistic principal
// components give it (Tipping and Bishop 1999, doi:10.1111/1467-9868.00196): the largest few
// variances as they are, all others alike, since there are fewer exams than features. The rank is
// the share of held-out exams that lay at least as far, each from the exams of its fold that are
// not held out, as a conformal p-value has it (Bates et al. 2023, arXiv:2104.08279). A run keeps
// moments and the held-out distances, sorted: no exam's features, no id.
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
inline constexpr double kUnlikeRate = 0.05;  // an exam of this rank or less is flagged

enum class Trait { kFeatures, kLength, kInterval, kStart };
inline constexpr std::array<const char*, 4> kTraitNames = {"features", "lengths", "intervals",
                                                           "starts"};

struct ExamTraits {
  torch::Tensor features;  // [n, D] the mean over each exam's frames, of length 1
  // Of each trait but the features, logarithms [n] of frames, of seconds between frames, and
  // log_elapsed() of the first frame; NaN: unknown.
  std::array<std::vector<double>, kTraitNames.size()> numbers;
};
// Of exams of the dataset, which was loaded from a cache, by their clean features.
ExamTraits traits_of(const Dataset& dataset, const std::vector<std::size_t>& exams);

struct OodScore {
  double distance = 0;          // squared of features, by their number; of the others in deviations
  double rank = 1;              // NaN where nothing is known
  double middle_rank = 1;       // the same with half of those that lay exactly as far
  std::size_t held_out = 0;     // exams that it is ranked among
  Trait by = Trait::kFeatures;  // whose rank it is

  bool flagged() const { return rank <= kUnlikeRate; }
};

class UnlikeTraining {
 public:
  // Of the exams and held-out parts of the first repeat; splits number the cache's exams.
  UnlikeTraining(const Dataset& dataset, const std::vector<Split>& splits);
  // Null for a run that could not write the file. DataError when it is damaged or of another number
  // of features.
  static std::optional<UnlikeTraining> read(const std::filesystem::path& run,
                                            std::int64_t dimension);
  void write(const std::filesystem::path& file) const;

  std::vector<OodScore> judge(const ExamTraits& exams, Trait trait) const;  // [n]
  // By what models see: the features and those of the `times` that the held-out exams had. The
  // rarest one decides, and its rank is multiplied by their number (Bonferroni), so that as few
  // exams are flagged as by one.
  std::vector<OodScore> judge_inputs(const ExamTraits& exams,
                                     const std::vector<Trait>& times) const;

 private:
  struct Moments {
    torch::Tensor mean, deviation;  // [D]
    torch::Tensor axes, variance;   // [k, D], [k + 1]; the last one of all other directions
    torch::Tensor pace;             // [3, 2] mean and deviation of each trait in numbers
  };
  UnlikeTraining() = default;
  static Moments fit(const ExamTraits& exams);
  static std::vector<double> distances(const Moments& moments, const ExamTraits& exams,
                                       Trait trait);

  Moments moments_;
  std::array<std::vector<double>, kTraitNames.size()> held_out_;  // distances by Trait, rising
};

// As the run keeps it; what goes wrong is a warning, for this must not end a finished training.
void write_unlike_training(const Dataset& dataset, const std::vector<Split>& splits,
                           const std::filesystem::path& file);

// What predict and evaluate say of exams unlike the training data (unlike_training.h).

// Counts, and warns of exams beyond the rate, or that too few were held out to find any: empty
// where so many could as well be chance.
std::size_t count_flagged(const std::vector<OodScore>& exams);
std::string warn_of_unlike(const std::vector<OodScore>& exams);

// What judge_inputs() judges beside the features: what the models were shown of times.
std::vector<Trait> times_shown_to(const Ensemble& ensemble);

// judge_inputs() of these exams; empty for a run or a bundle that does not know.
std::vector<OodScore> judge_exams(const std::filesystem::path& run, const Dataset& dataset,
                                  const std::vector<std::size_t>& exams,
                                  const std::vector<Trait>& times);

// As columns unlike_training and unlike_rank; none where `unlike` is empty, else it has every exam
// of the table's rows, in their order.
void add_unlike(PredictionTable& table, const std::vector<OodScore>& unlike);

// A row for each trait that the run's held-out exams have.
std::vector<CohortShift> cohort_shift(const UnlikeTraining& unlike, const ExamTraits& exams);

}  // namespace coldframe::temporal
