// The parts of the report on a cache: each makes HTML out of what was gathered.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cache/read/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/figures/neighbours.h"

namespace coldframe::cache::tool {

// The report shows this.
struct ReportData {
  std::string name;  // of the cache, without its folder
  Json overview;     // describe_cache
  Json statistics;   // FeatureStatistics of the view `clean`
  std::vector<double> norms;
  ExamMeans means;
};

// Exams as points, at most this many.
inline constexpr std::size_t kMostMapped = 1500;
// Thumbnails in the page, in bytes of JPEG. Exams beyond are shown without.
inline constexpr std::uint64_t kMostPictureBytes = 4u << 20;
// Frames of an exam in its self-similarity matrix, at most, evenly spaced.
inline constexpr std::size_t kMostFramesCompared = 48;

std::string sequences_section(const CacheReader& cache);
std::string features_section(const ReportData& data);
// `column`: "" for the first column with 2 to 8 different values.
std::string map_section(const CacheReader& cache, const std::string& column);
// `pictures`: with the exams' thumbnails, if the cache has some.
std::string exam_section(const CacheReader& cache, const ReportData& data,
                         const std::vector<std::size_t>& exams, bool pictures);
std::string failures_section(const CacheReader& cache);

// Says in plain words what a person should look at; empty when nothing was found.
std::vector<std::string> warnings_of(const ReportData& data);

// A message without the folders of the paths in it: a report may be shown to others.
std::string without_folders(const std::string& message);

}  // namespace coldframe::cache::tool
