// The covariates that trained models need of the exams to which they are applied.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "train_temporal/data/covariates.h"
#include "train_temporal/data/dataset.h"
#include "train_temporal/data/feature_source.h"
#include "train_temporal/data/sequence_reader.h"
#include "train_temporal/models/model_file.h"
#include "train_temporal/run/predictions.h"

namespace coldframe::temporal {

// The columns of the encoding, from `labels` (a CSV; empty: none) if it has them, else from the
// cache. ConfigError if neither has a column; DataError if a numeric column has text for one of
// `exams` (indices). Logs values that were merged.
std::vector<CovariateColumn> covariate_columns(const CovariateEncoding& encoding,
                                               const SequenceReader& cache,
                                               const std::vector<std::size_t>& exams,
                                               const std::filesystem::path& labels);

// How many of these exams have no value, and how many have a category unseen in training, which
// counts as missing; one line per affected column.
std::vector<std::string> missing_covariates(const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams);
std::vector<std::string> unknown_covariates(const CovariateEncoding& encoding,
                                            const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams);

// The features for a trained model: those of the cache, or those that its tuned ViT computes from
// the cache's cut.

// `dataset`: loaded from a cache that has what the model needs; must outlive the source. DataError
// if the backbone is missing or is not the one trained with the model.
std::shared_ptr<FeatureSource> features_for(const TrainedModel& trained, const Dataset& dataset);

// All fits of one model of a run, applied as an ensemble to a new cache.

class Ensemble {
 public:
  // Reads all files of one model, as model_files() and control_files() list them. DataError if
  // models are damaged or come from several trainings. `labels`: a CSV that may hold covariates;
  // empty: none.
  explicit Ensemble(const std::vector<std::filesystem::path>& files,
                    std::filesystem::path labels = {});

  std::vector<TrainedModel>& models() { return models_; }
  // The card of the first model trained by gradient steps: if fits chose between models, others are
  // `summary`.
  const ModelMetadata& card() const { return models_[described_].card; }
  std::size_t size() const { return models_.size(); }
  const std::vector<Target>& targets() const { return card().targets; }
  bool per_frame() const { return card().config.per_frame(); }
  double threshold(std::size_t target = 0) const;  // the mean over folds
  bool sees_times() const;                         // true if one of the models uses frame times
  const std::filesystem::path& labels() const { return labels_; }

  // Sets the horizons of time-to-event targets; empty: keeps those of the run. ConfigError if there
  // is no such target; warns if no training event occurred so late.
  void set_horizons(const std::vector<double>& horizons);
  void take_horizons(const std::vector<Target>& targets);  // those of a model to compare with

  // CacheError, which suggests a remedy, if the cache's features differ from those of the training,
  // or if it lacks the cut that tuned models start from.
  void require_same_features(const SequenceReader& cache, const std::filesystem::path& path) const;
  // Warnings of categories and streams of these exams that are unseen in training: they count as
  // missing.
  std::vector<std::string> unlearnt_inputs(const SequenceReader& cache,
                                           const std::vector<std::size_t>& exams) const;
  // DataError if the models take another number of features per frame.
  void require_width(std::int64_t features) const;
  // Passes the exams' covariates to the models.
  void take_covariates(const SequenceReader& cache, const std::vector<std::size_t>& exams);
  // Loads the exams' features for all models (tuned models compute their own from the cut), and
  // calls take_covariates(). The cache must already be arranged.
  Dataset load(const SequenceReader& cache, const std::vector<std::size_t>& exams,
               const torch::Device& device);
  // [target][model]: scores [n, Target::scores()] of the given exams (by index), or of their
  // present frames, each by the model's own Readout.
  std::vector<std::vector<std::vector<double>>> scores(const Dataset& dataset,
                                                       const std::vector<std::size_t>& exams);
  // Their means over models as a table without labels. `scores`: scores() of `exams`.
  PredictionTable averaged(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                           const std::vector<std::vector<std::vector<double>>>& scores) const;
  // Seconds that one model needs for these exams once loaded: the fastest of some passes. Requires
  // take_covariates().
  double seconds_for(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                     const torch::Device& device);

 private:
  void warn_of_late_horizons(double horizon) const;
  Dataset load_features(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                        const torch::Device& device) const;
  FeaturePlacement residence_of(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                                const torch::Device& device) const;
  std::vector<TrainedModel> models_;
  std::size_t described_ = 0;
  std::filesystem::path labels_;
};

std::vector<double> mean_scores(const std::vector<std::vector<double>>& scores);  // over models

std::vector<std::size_t> exams_with_frames(const SequenceReader& cache);

}  // namespace coldframe::temporal
