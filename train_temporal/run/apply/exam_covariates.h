// The covariates that trained models take, of the exams that they are applied to.
#pragma once

#include <filesystem>
#include <vector>

#include "cache/read/reader.h"
#include "train_temporal/data/covariates.h"

namespace coldframe::temporal {

// The columns of the encoding, of `labels` (a CSV; empty: none) if it has them, else of the cache.
// ConfigError where neither has one, DataError where one that was learnt as numbers holds text.
std::vector<CovariateColumn> covariate_columns(const CovariateEncoding& encoding,
                                               const cache::CacheReader& cache,
                                               const std::filesystem::path& labels);

// Says which values of these exams count as missing; empty where all are there and known.
std::vector<std::string> missing_covariates(const CovariateEncoding& encoding,
                                            const std::vector<CovariateColumn>& columns,
                                            const std::vector<std::size_t>& exams);

}  // namespace coldframe::temporal
