#include "cache/tool/odd/exam_figures.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "cache/read/cosine.h"
#include "common/files/fingerprint.h"
#include "common/numbers/quantile.h"

namespace coldframe::cache::tool {
namespace {

// Frames that can be compared, with their norms.
struct Usable {
  std::vector<std::size_t> frames;
  std::vector<double> norms;
};

void compare_norms(const Usable& usable, ExamFigures& figures) {
  figures.norm = median(usable.norms);
  for (std::size_t i = 0; i < usable.frames.size(); ++i) {
    const double ratio = usable.norms[i] / figures.norm, factor = std::max(ratio, 1 / ratio);
    if (factor <= figures.norm_factor) continue;
    figures.norm_factor = factor;
    figures.norm_frame = usable.frames[i];
  }
}

void compare_directions(const Usable& usable, std::span<const float> features,
                        std::size_t dimension, ExamFigures& figures) {
  if (usable.frames.size() < 3) return;
  std::vector<float> sum(dimension), others(dimension);
  for (const std::size_t frame : usable.frames)
    for (std::size_t d = 0; d < dimension; ++d) sum[d] += features[frame * dimension + d];
  for (const std::size_t frame : usable.frames) {
    const auto row = features.subspan(frame * dimension, dimension);
    for (std::size_t d = 0; d < dimension; ++d) others[d] = sum[d] - row[d];
    const double strangeness = 1 - cosine(row, others);
    if (strangeness <= figures.strangeness) continue;
    figures.strangeness = strangeness;
    figures.strange_frame = frame;
  }
}

}  // namespace

ExamFigures figures_of(const ExamInfo& exam, std::span<const float> features,
                       std::size_t dimension) {
  ExamFigures figures;
  Usable usable;
  std::unordered_set<std::uint64_t> seen;
  const std::vector<double> norms = row_norms(features, dimension);
  for (std::size_t t = 0; t < exam.frames(); ++t) {
    if (exam.present[t] == 0 || !std::isfinite(norms[t])) continue;
    if (norms[t] == 0) {
      figures.zero.push_back(t);
    } else {
      usable.frames.push_back(t);
      usable.norms.push_back(norms[t]);
      const auto row = features.subspan(t * dimension, dimension);
      if (!seen.insert(xxh3_64(std::as_bytes(row))).second) figures.repeated.push_back(t);
    }
  }
  if (usable.frames.empty()) return figures;
  figures.norm_factor = figures.strangeness = 0;
  compare_norms(usable, figures);
  compare_directions(usable, features, dimension, figures);
  return figures;
}

}  // namespace coldframe::cache::tool
