// Applies the models of a run or bundle to the features of a cache or of raw exams.
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
  // Opens the bundle if there is one, resolves the device before any other use of LibTorch, and
  // reads the models.
  explicit Predictor(const ApplyOptions& options);

  // The device for these exams.
  const torch::Device& device_for(const SequenceReader& cache,
                                  const std::vector<std::size_t>& exams);
  Ensemble& ensemble() { return ensemble_; }
  const std::filesystem::path& folder() const { return folder_; }  // with models/ and controls/
  // The cache to read; extracted from raw exams if there is none.
  const std::filesystem::path& features();
  const std::filesystem::path& cache() const { return cache_; }
  // The weights of the frozen ViT: those of the bundle, else `given`.
  std::filesystem::path weights(const std::filesystem::path& given) const;
  bool raw() const { return raw_.has_value(); }
  // Warnings of inputs that are unseen in training or that these exams lack; see check_times().
  std::vector<std::string> warnings_of(const SequenceReader& cache,
                                       const std::vector<std::size_t>& exams);
  // Like count_known(); 0 with --other-patients; empty for a bundle, which does not list its
  // training exams.
  std::optional<std::size_t> count_known(std::span<const cache::ExamInfo> exams,
                                         const std::vector<std::string>& patients,
                                         const std::vector<std::size_t>& used) const;

 private:
  std::optional<bundle::Bundle> bundle_;
  std::filesystem::path folder_;
  bool other_patients_, without_times_;
  bool tries_devices_;  // --device auto has found a GPU, and only models run on it
  std::optional<bundle::RawExams> raw_;
  torch::Device device_;
  Ensemble ensemble_;
  std::filesystem::path cache_;
};

// Exams and frames that could not be read, with reasons.
Json failures_json(const SequenceReader& cache);

}  // namespace coldframe::temporal
