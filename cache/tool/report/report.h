// The parts of the report on a cache: each makes HTML out of what was gathered.
#pragma once

#include <string>
#include <vector>

#include "cache/read/pictures.h"
#include "cache/read/reader.h"
#include "cache/tool/command.h"
#include "cache/tool/odd/oddities.h"

namespace coldframe::cache::tool {

// The report shows this.
struct ReportData {
  std::string name;  // of the cache, without its folder
  Json overview;     // describe_cache
  Json statistics;   // FeatureStatistics of the view `clean`
  std::vector<double> norms;
  ExamMeans means;
  std::vector<ExamFigures> figures;  // of each exam
  NearestRows nearest;               // of means
  Oddities odd;
  std::string colour;          // the column that colours the map; "": none
  bool with_patients = false;  // by the names that the cache has, else by numbers
};

// The table of all exams, and rows of it, have this name in links.
inline constexpr const char* kExamTable = "exams";

// Exams as points, at most this many, and all outliers.
inline constexpr std::size_t kMostMapped = 1500;
// Frames of an exam in its self-similarity matrix, at most, evenly spaced.
inline constexpr std::size_t kMostFramesCompared = 48;

html::Body sequences_section(const CacheReader& cache);
html::Body features_section(const ReportData& data);
// `wanted`: "" for the first column with 2 to 8 different values.
std::string choose_colour(const CacheReader& cache, const std::string& wanted);
html::Body map_section(const CacheReader& cache, const ReportData& data);
html::Body odd_section(const CacheReader& cache, const ReportData& data);
// All exams, with `pictures` for the odd ones first.
html::Body table_section(const CacheReader& cache, const ReportData& data, Pictures& pictures);
// Some exams frame by frame.
html::Body exam_section(const CacheReader& cache, const ReportData& data,
                        const std::vector<std::size_t>& exams, Pictures& pictures);
html::Body failures_section(const CacheReader& cache);

// Says in plain words what a person should look at; empty when nothing was found.
std::vector<std::string> warnings_of(const ReportData& data);

// A message without the folders of the paths in it: a report may be shown to others.
std::string without_folders(const std::string& message);

}  // namespace coldframe::cache::tool
