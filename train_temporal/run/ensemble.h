// The covariates that trained models take, of the exams that they are applied to.
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

// The columns of the encoding, of `labels` (a CSV; empty: none) if it has them, else of the cache.
// ConfigError where neither has one, DataError where one that was learnt as numbers holds text for
// an exam of `exams`, those given by index. The log tells of values that are taken as one.
std::vector<CovariateColumn> covariate_columns(const CovariateEncoding& encoding,
                                               const SequenceReader& cache,
                                               const std::vector<std::size_t>& exams,
                                               const std::filesystem::path& labels);

// Says how many of these exams have no value, and how many a category that the training did not
// have, which counts as missing; a line for each column that has such.
std::vector<std::string> missing_covariates(const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams);
std::vector<std::string> unknown_covariates(const CovariateEncoding& encoding,
                                            const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams);

// The features that a trained model sees: the cache's own, or those that the ViT trained with it
// makes of the cache's cut.

// `dataset`: loaded from a cache that has what the model needs. It must live on. DataError for a
// backbone that is not there or not the one that was trained with the model.
std::shared_ptr<FeatureSource> features_for(const TrainedModel& trained, const Dataset& dataset);

// All fits of a model of a run, applied together to a cache that none of them has seen.

class Ensemble {
 public:
  // Reads every file of one model, as model_files() and control_files() list them. DataError for
  // damaged models, and for those of several trainings.
  // `labels`: a CSV that may hold covariates; empty: none.
  explicit Ensemble(const std::vector<std::filesystem::path>& files,
                    std::filesystem::path labels = {});

  std::vector<TrainedModel>& models() { return models_; }
  // Of the first that is trained by steps: where fits chose between models, others are `summary`.
  const ModelMetadata& card() const { return models_[described_].card; }
  std::size_t size() const { return models_.size(); }
  const std::vector<Target>& targets() const { return card().targets; }
  bool per_frame() const { return card().config.per_frame(); }
  double threshold(std::size_t target = 0) const;  // the mean over folds
  bool sees_times() const;                         // of frames; one of the models does
  const std::filesystem::path& labels() const { return labels_; }

  // Times to an event are predicted up to these; as the run was asked where `horizons` is empty.
  // ConfigError where no target is one; a warning where no event of the training came so late.
  void set_horizons(const std::vector<double>& horizons);
  void take_horizons(const std::vector<Target>& targets);  // of a model to compare with

  // CacheError, which says what to do, when the cache has other features than those that the models
  // were trained on, or lacks the cut that tuned ones go on from.
  void require_same_features(const SequenceReader& cache, const std::filesystem::path& path) const;
  // Says which categories and streams of these exams the training did not have: they count as
  // missing.
  std::vector<std::string> unlearnt_inputs(const SequenceReader& cache,
                                           const std::vector<std::size_t>& exams) const;
  // DataError where a frame has another number of features than the models take.
  void require_width(std::int64_t features) const;
  // The exams' covariates go to the models.
  void take_covariates(const SequenceReader& cache, const std::vector<std::size_t>& exams);
  // Loads the exams' features for all models (tuned models compute their own from the cut), and
  // calls take_covariates(). The cache is arranged already.
  Dataset load(const SequenceReader& cache, const std::vector<std::size_t>& exams,
               const torch::Device& device);
  // Of each target by every model, as its own Readout has them, the scores [n, Target::scores()] of
  // the exams given by index, or of their present frames: [target][model].
  std::vector<std::vector<std::vector<double>>> scores(const Dataset& dataset,
                                                       const std::vector<std::size_t>& exams);
  // The same as a table without labels.
  PredictionTable predict(const SequenceReader& cache, const Dataset& dataset,
                          const std::vector<std::size_t>& exams);
  // What one of the models takes for these exams, once they are loaded: the quickest of some
  // passes. It has their covariates.
  double seconds_for(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                     const torch::Device& device);

 private:
  void warn_of_late_horizons(double horizon) const;
  Dataset load_features(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                        const torch::Device& device) const;
  Residence residence_of(const SequenceReader& cache, const std::vector<std::size_t>& exams,
                         const torch::Device& device) const;
  std::vector<TrainedModel> models_;
  std::size_t described_ = 0;
  std::filesystem::path labels_;
};

std::vector<double> mean_scores(const std::vector<std::vector<double>>& scores);  // over models

std::vector<std::size_t> exams_with_frames(const SequenceReader& cache);

}  // namespace coldframe::temporal
