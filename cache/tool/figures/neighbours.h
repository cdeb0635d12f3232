// Exams that resemble each other, by the cosine of their mean features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cache/read/reader.h"
#include "cache/tool/figures/spectrum.h"

namespace coldframe::cache::tool {

// The mean features of exams over their present frames, after the mean of all these means has been
// taken away and each row scaled to length 1, so that dot products are cosines. (Without the first
// step nearly all exams have a cosine near 1, since features share a large mean.)
struct ExamMeans {
  std::vector<std::size_t>
      exams;    // [N] indices into the cache; exams without a present frame are left out
  Matrix rows;  // [N, D]
  std::vector<float> lengths;  // [N] of the rows before they were scaled
  std::size_t of = 0;          // how many exams there are to choose from
};

// Collects the means while somebody goes through the cache.
class ExamMeansBuilder {
 public:
  // At most kMostMeanValues / D exams are taken, evenly spaced over `count`.
  ExamMeansBuilder(std::size_t count, std::size_t dimension);
  // `number`: the how-manieth of `count`; `exam`: its index in the cache. Numbers must rise.
  void add(std::size_t number, std::size_t exam, std::span<const float> features);
  ExamMeans finish();
  static constexpr std::size_t kMostMeanValues = 64u << 20;  // 256 MiB

 private:
  std::vector<std::size_t> wanted_;
  std::size_t next_ = 0;
  ExamMeans means_;
};

struct Pair {
  std::size_t a = 0, b = 0;  // indices into ExamMeans::exams, a < b
  double cosine = 0;
};

// All pairs are compared up to kMostExhaustive exams. Above that, exams are sorted along each of 16
// principal axes and each is compared with the kWindow behind it (the sorted neighbourhood of
// Hernández & Stolfo 1995), which finds near-duplicates, since they lie together along every axis.
inline constexpr std::size_t kMostExhaustive = 16384, kWindow = 24, kSortedAxes = 16;

// For each row those nearest to it that are found among these pairs, the nearest first, at most
// kNeighbours.
struct Neighbour {
  std::uint32_t row;  // of ExamMeans
  float cosine;
};
using NearestRows = std::vector<std::vector<Neighbour>>;
inline constexpr std::size_t kNeighbours = 10;

// Pairs with a cosine of at least `least` that are not of one known patient, the most similar
// first; at most `most`. `found` counts all of them. `nearest`, unless null, is filled too.
std::vector<Pair> similar_pairs(const CacheReader& cache, const ExamMeans& means, double least,
                                std::size_t most, std::size_t& found,
                                NearestRows* nearest = nullptr);

// The `most` rows that are nearest to row `from`, the nearest first.
std::vector<Pair> nearest_rows(const ExamMeans& means, std::size_t from, std::size_t most);

}  // namespace coldframe::cache::tool
