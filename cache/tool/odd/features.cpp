// Exams that are odd by their features alone.
#include <algorithm>
#include <cmath>

#include "cache/tool/odd/finder.h"
#include "common/charts/svg.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

constexpr std::size_t kOfDistance = 5;
constexpr double kLeastStrange = 0.01;  // 1 − cosine: frames of a still clip are all alike

// The Euclidean distance of vectors of lengths a and b with this cosine between them.
double distance_between(double a, double b, double cosine) {
  return std::sqrt(std::max(0.0, a * a + b * b - 2 * a * b * cosine));
}

std::vector<double> distances(const Examined& examined) {
  const ExamMeans& means = examined.means;
  std::vector<double> distance(examined.cache.exams().size(), std::nan(""));
  for (std::size_t row = 0; row < means.exams.size(); ++row) {
    const auto& nearest = examined.nearest[row];
    const std::size_t count = std::min(kOfDistance, nearest.size());
    double sum = 0;
    for (std::size_t i = 0; i < count; ++i)
      sum += distance_between(means.lengths[row], means.lengths[nearest[i].row], nearest[i].cosine);
    if (count > 0) distance[means.exams[row]] = sum / static_cast<double>(count);
  }
  return distance;
}

std::vector<double> of_each(const std::vector<ExamFigures>& figures, double ExamFigures::*member) {
  std::vector<double> values;
  for (const ExamFigures& each : figures) values.push_back(each.*member);
  return values;
}

std::string compared(const std::string& what, double value, double usual) {
  return concat(what, " ", html::number_text(value), ", usually ", html::number_text(usual));
}

void find_faulty_frames(const Examined& examined, OddityFinder& finder) {
  for (std::size_t exam = 0; exam < examined.figures.size(); ++exam) {
    const ExamFigures& figures = examined.figures[exam];
    const std::size_t present =
        static_cast<std::size_t>(std::ranges::count(examined.cache.exams()[exam].present, 1));
    if (!figures.zero.empty())
      finder.note("frames of zeros", exam, name_frames(figures.zero) + " with only zeros");
    if (figures.repeated.empty()) continue;
    const bool all = figures.repeated.size() + 1 == present;
    finder.note("repeated frames", exam,
                all ? concat("all ", present, " frames are the same")
                    : name_frames(figures.repeated) + " repeated from before");
  }
}

}  // namespace

void find_odd_features(const Examined& examined, OddityFinder& finder, Oddities& oddities) {
  const std::vector<ExamFigures>& figures = examined.figures;
  finder.measure(
      {kOddNorm, true, 1.25}, of_each(figures, &ExamFigures::norm),
      [](std::size_t, double value, double usual) { return compared("norm", value, usual); });
  oddities.distance = distances(examined);
  finder.measure({kFarAway, true, 1.5, true}, oddities.distance,
                 [](std::size_t, double value, double usual) {
                   return compared("distance from the nearest exams", value, usual);
                 });
  finder.measure({"norm of one frame", true, 1.5, true},
                 of_each(figures, &ExamFigures::norm_factor),
                 [&](std::size_t exam, double value, double) {
                   return concat("norm of frame ", figures[exam].norm_frame, " differs ",
                                 html::number_text(value), "-fold from the others'");
                 });
  finder.measure({"one frame unlike the others", true, 2, true, kLeastStrange},
                 of_each(figures, &ExamFigures::strangeness),
                 [&](std::size_t exam, double value, double) {
                   return concat("frame ", figures[exam].strange_frame,
                                 " unlike the others (cosine ", fixed(1 - value, 3), ")");
                 });
  find_faulty_frames(examined, finder);
}

}  // namespace coldframe::cache::tool
