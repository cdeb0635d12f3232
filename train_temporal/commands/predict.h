// A run and what it is applied to: the models of a run or of a bundle, and the features of a
// cache or of exams as they come.
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "train_temporal/bundle/raw_exams.h"
#include "train_temporal/run/ensemble.h"
#include "train_temporal/run/options.h"

namespace coldframe::temporal {

class Predictor {
 public:
  // Opens the bundle if there is one, resolves the device before LibTorch does anything else, and
  // reads the models.
  explicit Predictor(const ApplyOptions& options);

  // That computes these exams.
  const torch::Device& device_for(const SequenceReader& cache,
                                  const std::vector<std::size_t>& exams);
  Ensemble& ensemble() { return ensemble_; }
  const std::filesystem::path& folder() const { return folder_; }  // with models/ and controls/
  // The cache to read, made of exams as they come where there is none.
  const std::filesystem::path& features();
  const std::filesystem::path& cache() const { return cache_; }
  // The weights of the frozen ViT: the bundle's, or else those given.
  std::filesystem::path weights(const std::filesystem::path& given) const;
  bool raw() const { return raw_.has_value(); }
  // What these exams have that the training had not, and what they lack; see check_times().
  std::vector<std::string> warnings_of(const SequenceReader& cache,
                                       const std::vector<std::size_t>& exams);
  // As count_known(), 0 with --other-patients; empty for a bundle, which names no exam of its
  // training.
  std::optional<std::size_t> count_known(std::span<const cache::ExamInfo> exams,
                                         const std::vector<std::string>& patients,
                                         const std::vector<std::size_t>& used) const;

 private:
  std::optional<bundle::Bundle> bundle_;
  std::filesystem::path folder_;
  bool other_patients_, without_times_;
  bool tries_devices_;  // --device auto has found a GPU, and models alone are to compute
  std::optional<bundle::RawExams> raw_;
  torch::Device device_;
  Ensemble ensemble_;
  std::filesystem::path cache_;
};

// Exams, and frames, that could not be read, and why.
Json failures_json(const SequenceReader& cache);

}  // namespace coldframe::temporal
