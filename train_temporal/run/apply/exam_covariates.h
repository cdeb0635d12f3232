// The covariates that trained models take, of the exams that they are applied to.
#pragma once

#include <filesystem>
#include <vector>

#include "train_temporal/data/covariates.h"
#include "train_temporal/data/sequence_reader.h"

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

}  // namespace coldframe::temporal
