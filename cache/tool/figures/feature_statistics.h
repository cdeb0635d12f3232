// Figures of the features of one view, gathered exam by exam so that few exams are in memory.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cache/read/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/figures/neighbours.h"
#include "cache/tool/figures/spectrum.h"

namespace coldframe::cache::tool {

class FeatureStatistics {
 public:
  // The statistics will see `exams` exams with `frames` frames together.
  FeatureStatistics(std::size_t exams, std::size_t frames, std::size_t dimension);
  void add(const ExamInfo& exam, std::size_t index, std::span<const float> features);
  // Everything that `stats --json` prints of a view. Call once. `nearest`, unless null, is filled.
  Json finish(const CacheReader& cache, NearestRows* nearest = nullptr);

  // The frames that the effective rank is computed of: at most this many, evenly spaced over all
  // slots.
  static constexpr std::size_t kMostSampledFrames = 8192;
  // Exams of different patients are near-duplicates when the cosine of their mean features is at
  // least this.
  static constexpr double kNearDuplicate = 0.999;

  const std::vector<double>& norms() const { return norms_; }
  const ExamMeans& means() const { return exam_means_; }  // after finish()

 private:
  void add_row(std::span<const float> row);
  Json spread() const;
  Json identical_exams(const CacheReader& cache);
  Json near_duplicates(const CacheReader& cache, NearestRows* nearest);

  std::size_t dimension_, rows_ = 0, missing_ = 0, nan_ = 0, zero_ = 0, exams_ = 0;
  std::vector<float> lowest_, highest_;
  std::vector<double> sum_, squares_;  // per dimension
  std::vector<double> norms_;
  std::vector<std::uint64_t> row_hashes_;
  std::vector<std::pair<std::uint64_t, std::size_t>> exam_hashes_;
  std::vector<std::size_t> sampled_;  // slots
  std::size_t next_sample_ = 0;
  Matrix sample_;
  ExamMeansBuilder means_;
  ExamMeans exam_means_;
};

// Goes through `exams` of one view of the cache; `also` sees them too.
FeatureStatistics gather_statistics(const CacheReader& cache, const std::string& view,
                                    std::span<const std::size_t> exams,
                                    const CacheReader::Visit& also = {});

// Which exams were compared for a view's `near_duplicates`: "130 exams, all pairs".
std::string compared_exams(const Json& near_duplicates);

}  // namespace coldframe::cache::tool
