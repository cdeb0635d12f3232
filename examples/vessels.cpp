#include "examples/vessels.h"

#include <algorithm>
#include <cmath>
#include <opencv2/imgproc.hpp>

namespace coldframe::examples {
namespace {

constexpr double kPi = 3.14159265358979323846;

struct Tip {
  cv::Point2d at;
  double angle;  // radians
  double width;  // pixels
};

// Grows one branch in short wiggling steps until it forks or leaves the image, then its two
// daughters. Their widths obey Murray's law, w³ = w₁³ + w₂³; the thinner one turns off more.
void grow(cv::RNG& random, cv::Mat& mask, Tip tip) {
  constexpr int kFractionBits = 4;  // cv::line draws at 1/16 pixel
  const double size = mask.cols, unit = size / 256.0, scale = 1 << kFractionBits;
  if (tip.width < 1.7 * unit) return;
  const double step = 5.0 * unit;
  for (double left = random.uniform(0.10, 0.20) * size; left > 0; left -= step) {
    tip.angle += random.gaussian(0.12);
    const cv::Point2d next = tip.at + step * cv::Point2d(std::cos(tip.angle), std::sin(tip.angle));
    cv::line(mask, cv::Point(tip.at * scale), cv::Point(next * scale), cv::Scalar(255),
             std::max(1, static_cast<int>(std::lround(tip.width))), cv::LINE_AA, kFractionBits);
    tip.at = next;
    if (next.x < 0 || next.y < 0 || next.x > size || next.y > size) return;
  }
  const double ratio = random.uniform(0.4, 1.0);
  const double thicker = tip.width / std::cbrt(1.0 + ratio * ratio * ratio);
  const double side = random.uniform(0, 2) == 0 ? -1.0 : 1.0, fork = random.uniform(0.7, 1.3);
  grow(random, mask, {tip.at, tip.angle + side * fork * ratio / (1 + ratio), thicker});
  grow(random, mask, {tip.at, tip.angle - side * fork / (1 + ratio), thicker * ratio});
}

// Trees that enter from one border, fanned towards the middle.
cv::Mat draw_trees(cv::RNG& random, int size, int trees, double width) {
  cv::Mat mask = cv::Mat::zeros(size, size, CV_8U);
  for (int tree = 0; tree < trees; ++tree) {
    const double along = (tree + random.uniform(0.25, 0.75)) / trees;
    grow(random, mask, {{0.0, along * size}, random.uniform(-0.4, 0.4), width * size / 256.0});
  }
  cv::Mat coverage;
  mask.convertTo(coverage, CV_32F, 1.0 / 255.0);
  cv::GaussianBlur(coverage, coverage, {}, 0.7);
  return coverage;
}

// One of the eight ways to lay a square upon itself, so that no place in the image is special.
void turn_and_mirror(cv::RNG& random, cv::Mat& image) {
  const int quarter_turns = random.uniform(0, 4);
  for (int i = 0; i < quarter_turns; ++i) cv::rotate(image, image, cv::ROTATE_90_CLOCKWISE);
  if (random.uniform(0, 2) == 1) cv::flip(image, image, 1);
}

}  // namespace

cv::Mat smooth_noise(cv::RNG& random, int size, double scale) {
  const int cells = std::max(4, static_cast<int>(std::lround(size / scale)) + 3);
  cv::Mat coarse(cells, cells, CV_32F), fine;
  random.fill(coarse, cv::RNG::NORMAL, 0.0, 1.0);
  cv::resize(coarse, fine, {size, size}, 0, 0, cv::INTER_CUBIC);
  cv::Scalar mean, deviation;
  cv::meanStdDev(fine, mean, deviation);
  return (fine - mean[0]) / std::max(deviation[0], 1e-6);
}

VascularBed draw_vascular_bed(cv::RNG& random, int size) {
  VascularBed bed;
  bed.arteries = draw_trees(random, size, 2, 7.0);
  turn_and_mirror(random, bed.arteries);
  bed.veins = draw_trees(random, size, 2, 11.0);
  turn_and_mirror(random, bed.veins);
  cv::subtract(bed.veins, bed.arteries, bed.veins);  // arteries cross over veins
  cv::max(bed.veins, 0.0, bed.veins);
  const cv::Mat perfusion = 1.0 + 0.15 * smooth_noise(random, size, size / 5.0);
  cv::multiply(1.0 - bed.arteries - bed.veins, cv::max(perfusion, 0.3), bed.tissue);
  bed.texture =
      0.7 * smooth_noise(random, size, size / 12.0) + 0.7 * smooth_noise(random, size, size / 64.0);
  return bed;
}

}  // namespace coldframe::examples
