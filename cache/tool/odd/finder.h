// Gathers the reasons for which exams are odd. Numbers are judged by the modified z-score (Iglewicz
// and Hoaglin, "How to detect and handle outliers", 1993): 0.6745 · (x − median) / MAD, and, where
// half of the values are equal, (x − median) / (1.2533 · mean absolute deviation).
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "cache/tool/odd/oddities.h"

namespace coldframe::cache::tool {

// The kinds that make an exam an outlier of the map.
inline constexpr const char *kOddNorm = "norm", *kFarAway = "distance from the rest";

class OddityFinder {
 public:
  explicit OddityFinder(const CacheReader& cache) : cache_(cache) {}

  // `kind`: what the reasons of many exams have in common, "repeated frames".
  void note(const std::string& kind, std::size_t exam, std::string text, double strength = 1);

  // How a number of each exam (NaN: none) is judged.
  struct Measure {
    std::string kind;
    bool ratio = true;        // compare ratios, of numbers above 0; else differences
    double least_factor = 1;  // of ratios: one that is nearer to 1 is never odd
    bool only_high = false;
    double least = -std::numeric_limits<double>::infinity();  // a number below it is never odd
  };
  // In words: the exam, its number and the median of all.
  using Words = std::function<std::string(std::size_t exam, double value, double usual)>;
  void measure(const Measure& measure, const std::vector<double>& values, const Words& words);

  // Sets oddness, reasons and common.
  void finish(Oddities& oddities) const;
  bool has(const std::string& kind, std::size_t exam) const;
  bool is_outlier(std::size_t exam) const;

 private:
  struct Reason {
    std::string text;
    double strength;
  };
  bool is_common(const std::string& kind) const;

  const CacheReader& cache_;
  std::vector<std::string> kinds_;  // in order of appearance
  std::map<std::string, std::map<std::size_t, std::vector<Reason>>> found_;
};

void find_odd_features(const Examined& examined, OddityFinder& finder, Oddities& oddities);
void find_odd_neighbours(const Examined& examined, OddityFinder& finder);
void find_odd_sequences(const Examined& examined, OddityFinder& finder);
void find_odd_columns(const Examined& examined, OddityFinder& finder);

// "frame 3", "frames 3, 5 and 7", "12 frames (3, 4, 5, …)"
std::string name_frames(const std::vector<std::size_t>& frames);

}  // namespace coldframe::cache::tool
