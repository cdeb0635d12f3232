#include "cache/tool/figures/feature_statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cache/tool/exams/filter.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kMostDimensionsNamed = 20, kMostGroups = 100, kMostPairs = 20;

const Fractions kNormQuantiles = {{"min", 0},    {"p1", 0.01},  {"p25", 0.25}, {"median", 0.5},
                                  {"p75", 0.75}, {"p99", 0.99}, {"max", 1}};

}  // namespace

FeatureStatistics::FeatureStatistics(std::size_t exams, std::size_t frames, std::size_t dimension)
    : dimension_(dimension),
      lowest_(dimension, std::numeric_limits<float>::infinity()),
      highest_(dimension, -std::numeric_limits<float>::infinity()),
      sum_(dimension),
      squares_(dimension),
      sampled_(evenly_spaced(frames, kMostSampledFrames)),
      sample_{0, dimension, {}},
      means_(exams, dimension) {
  norms_.reserve(frames);
  row_hashes_.reserve(frames);
}

void FeatureStatistics::add_row(std::span<const float> row) {
  double squares = 0;
  for (const float value : row) squares += static_cast<double>(value) * value;
  const bool sampled = next_sample_ < sampled_.size() && sampled_[next_sample_] == rows_ - 1;
  if (sampled) ++next_sample_;
  if (!std::isfinite(squares)) {
    ++nan_;
    return;
  }
  for (std::size_t d = 0; d < row.size(); ++d) {
    lowest_[d] = std::min(lowest_[d], row[d]);
    highest_[d] = std::max(highest_[d], row[d]);
    sum_[d] += row[d];
    squares_[d] += static_cast<double>(row[d]) * row[d];
  }
  norms_.push_back(std::sqrt(squares));
  if (squares == 0) ++zero_;
  row_hashes_.push_back(xxh3_64(std::as_bytes(row)));
  if (sampled) sample_.add_row(row);
}

void FeatureStatistics::add(const ExamInfo& exam, std::size_t index,
                            std::span<const float> features) {
  for (std::size_t t = 0; t < exam.frames(); ++t) {
    ++rows_;
    if (exam.present[t] != 0) {
      add_row(features.subspan(t * dimension_, dimension_));
      continue;
    }
    ++missing_;
    if (next_sample_ < sampled_.size() && sampled_[next_sample_] == rows_ - 1) ++next_sample_;
  }
  exam_hashes_.emplace_back(xxh3_64(std::as_bytes(features)), index);
  means_.add(exams_++, index, features);
}

// The spread is that of all values, and of the standard deviations of the dimensions.
Json FeatureStatistics::spread() const {
  if (norms_.empty()) return nullptr;
  const auto rows = static_cast<double>(norms_.size());
  double sum = 0, squares = 0;
  std::vector<double> deviations;
  for (std::size_t d = 0; d < dimension_; ++d) {
    sum += sum_[d];
    squares += squares_[d];
    const double mean = sum_[d] / rows;
    deviations.push_back(std::sqrt(std::max(0.0, squares_[d] / rows - mean * mean)));
  }
  const double count = rows * static_cast<double>(dimension_), mean = sum / count;
  Json json = Json::object();
  json["min"] = *std::min_element(lowest_.begin(), lowest_.end());
  json["max"] = *std::max_element(highest_.begin(), highest_.end());
  json["mean"] = mean;
  json["deviation"] = std::sqrt(std::max(0.0, squares / count - mean * mean));
  json["deviation_of_dimensions"] = quantiles(deviations, kNormQuantiles);
  return json;
}

Json FeatureStatistics::identical_exams(const CacheReader& cache) {
  std::sort(exam_hashes_.begin(), exam_hashes_.end());
  Json groups = Json::array();
  for (std::size_t first = 0, end = 0; first < exam_hashes_.size(); first = end) {
    while (end < exam_hashes_.size() && exam_hashes_[end].first == exam_hashes_[first].first) ++end;
    if (end - first < 2 || groups.size() >= kMostGroups) continue;
    Json ids = Json::array();
    for (std::size_t i = first; i < end; ++i)
      ids.push_back(cache.exams()[exam_hashes_[i].second].id);
    groups.push_back(std::move(ids));
  }
  return groups;
}

Json FeatureStatistics::near_duplicates(const CacheReader& cache, NearestRows* nearest) {
  exam_means_ = means_.finish();
  const ExamMeans& means = exam_means_;
  std::size_t found = 0;
  const std::vector<Pair> pairs =
      similar_pairs(cache, means, kNearDuplicate, kMostPairs, found, nearest);
  Json json = Json::object();
  json["cosine_at_least"] = kNearDuplicate;
  json["exams_compared"] = means.exams.size();
  json["all_pairs"] = means.exams.size() <= kMostExhaustive;
  json["pairs"] = found;
  json["closest"] = Json::array();
  for (const Pair& pair : pairs) {
    const ExamInfo &a = cache.exams()[means.exams[pair.a]], &b = cache.exams()[means.exams[pair.b]];
    json["closest"].push_back(Json{
        {"exams", {a.id, b.id}}, {"patients", {a.patient, b.patient}}, {"cosine", pair.cosine}});
  }
  return json;
}

Json FeatureStatistics::finish(const CacheReader& cache, NearestRows* nearest) {
  std::sort(row_hashes_.begin(), row_hashes_.end());
  const auto distinct = std::unique(row_hashes_.begin(), row_hashes_.end()) - row_hashes_.begin();
  Json dead = Json::array();
  std::size_t dead_count = 0;
  for (std::size_t d = 0; d < dimension_; ++d) {
    if (lowest_[d] != highest_[d]) continue;
    ++dead_count;
    if (dead.size() < kMostDimensionsNamed) dead.push_back(d);
  }
  Json json = Json::object();
  json["rows"] = rows_;
  json["missing_rows"] = missing_;
  json["nan_rows"] = nan_;
  json["zero_rows"] = zero_;
  json["duplicate_rows"] = row_hashes_.size() - static_cast<std::size_t>(distinct);
  json["norm"] = quantiles(norms_, kNormQuantiles);
  json["values"] = spread();
  json["dead_dimensions"] = dead_count;
  json["first_dead_dimensions"] = dead;
  json["sampled_rows"] = sample_.rows;
  centre(sample_);
  json["effective_rank"] = effective_rank(sample_);
  json["identical_exams"] = identical_exams(cache);
  json["near_duplicates"] = near_duplicates(cache, nearest);
  return json;
}

FeatureStatistics gather_statistics(const CacheReader& cache, const std::string& view,
                                    std::span<const std::size_t> exams,
                                    const CacheReader::Visit& also) {
  std::size_t frames = 0;
  for (const std::size_t exam : exams) frames += cache.exams()[exam].frames();
  FeatureStatistics statistics(exams.size(), frames, static_cast<std::size_t>(cache.dimension()));
  cache.scan(view, exams, [&](std::size_t exam, std::span<const float> features) {
    statistics.add(cache.exams()[exam], exam, features);
    if (also) also(exam, features);
  });
  return statistics;
}

std::string compared_exams(const Json& near_duplicates) {
  return concat(
      near_duplicates["exams_compared"].dump(), " exams, ",
      near_duplicates["all_pairs"] == true
          ? "all pairs"
          : concat("each with the ", kWindow, " next along ", kSortedAxes, " principal axes"));
}

}  // namespace coldframe::cache::tool
