#include "extract/decode/volume.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/decode/nifti/nifti_header.h"

namespace coldframe::frames {
namespace {

constexpr double kUneven = 0.1;     // of the distance of slices
constexpr double kOneTurn = 1e-3;   // by which directions may differ, of their lengths
constexpr double kSheared = 1e-3;   // cosine of the angle between axes
constexpr double kOnePlace = 0.01;  // of the distance of slices

Point cross(const Point& a, const Point& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

Point difference(const Point& a, const Point& b) {
  return {a[0] - b[0], a[1] - b[1], a[2] - b[2]};
}

bool is_stated(const Point& point) {
  return std::isfinite(dot(point, point));
}

bool differ(const Point& a, const Point& b) {
  return length(difference(a, b)) > kOneTurn * length(b);
}

void require_alike(std::span<const Plane> planes, std::span<const std::string> names) {
  const Plane& first = planes.front();
  for (std::size_t i = 0; i < planes.size(); ++i) {
    const Plane& plane = planes[i];
    if (!is_stated(plane.origin) || !is_stated(plane.across) || !is_stated(plane.down) ||
        length(cross(plane.across, plane.down)) == 0)
      throw DataError(concat("'", names[i],
                             "' does not state where its values lie (DICOM ImagePositionPatient, "
                             "ImageOrientationPatient and PixelSpacing; NIfTI sform, qform or "
                             "pixdim), which a volume needs"));
    if (plane.width != first.width || plane.height != first.height)
      throw DataError(concat("its slices differ in size: '", names[0], "' has ", first.width, "×",
                             first.height, " values, '", names[i], "' ", plane.width, "×",
                             plane.height, "; they are no volume"));
    if (differ(plane.across, first.across) || differ(plane.down, first.down))
      throw DataError(concat("its slices are not parallel or differ in spacing: '", names[0],
                             "' and '", names[i], "'; they are no volume"));
  }
}

// Distances along the normal, from slice to slice.
void require_even(const std::vector<double>& places, const std::vector<std::size_t>& order,
                  std::span<const std::string> names) {
  std::vector<double> gaps;
  for (std::size_t k = 1; k < order.size(); ++k)
    gaps.push_back(places[order[k]] - places[order[k - 1]]);
  std::vector<double> sorted = gaps;
  std::ranges::nth_element(sorted, sorted.begin() + std::ssize(sorted) / 2);
  const double usual = sorted[sorted.size() / 2];
  for (std::size_t k = 0; k < gaps.size(); ++k) {
    const std::string where = concat("'", names[order[k]], "' and '", names[order[k + 1]], "'");
    if (gaps[k] <= kOnePlace * usual)
      throw DataError(concat(where,
                             " lie at one place; a volume has one value at each: make an exam of "
                             "each time, echo or series"));
    if (std::abs(gaps[k] - usual) <= kUneven * usual) continue;
    throw DataError(gaps[k] > 1.5 * usual
                        ? concat("between ", where, " lie ", fixed(gaps[k], 2),
                                 " mm, between others ", fixed(usual, 2),
                                 " mm: a slice is missing, and a volume is read "
                                 "whole or not at all")
                        : concat("its slices are unevenly spaced: between ", where, " lie ",
                                 fixed(gaps[k], 2), " mm, between others ", fixed(usual, 2),
                                 " mm; resample the series before"));
  }
}

}  // namespace

Point VolumeGeometry::at(const Point& voxel) const {
  Point point = origin;
  for (std::size_t axis = 0; axis < 3; ++axis)
    for (std::size_t i = 0; i < 3; ++i) point[i] += voxel[axis] * axes[axis][i];
  return point;
}

bool VolumeGeometry::is_sheared() const {
  const auto cosine = [this](std::size_t a, std::size_t b) {
    return std::abs(dot(axes[a], axes[b])) / length(axes[a]) / length(axes[b]);
  };
  return std::max({cosine(0, 1), cosine(0, 2), cosine(1, 2)}) > kSheared;
}

Orientation VolumeGeometry::orientation() const {
  Matrix3 transform{};
  for (std::size_t row = 0; row < 3; ++row)
    for (std::size_t axis = 0; axis < 3; ++axis) transform[row][axis] = axes[axis][row];
  return closest_ras(transform);
}

VolumeGeometry stack(std::span<const Plane> planes, std::span<const std::string> names) {
  require_alike(planes, names);
  const Plane& any = planes.front();
  const Point normal = cross(any.across, any.down);
  std::vector<double> along;  // millimetres
  for (const Plane& plane : planes) along.push_back(dot(plane.origin, normal) / length(normal));
  std::vector<std::size_t> order(planes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t plane) { return along[plane]; });

  VolumeGeometry geometry;
  geometry.size = {any.width, any.height, std::ssize(planes)};
  const Plane &first = planes[order.front()], &last = planes[order.back()];
  geometry.origin = first.origin;
  geometry.axes = {any.across, any.down, any.through};
  if (planes.size() > 1) {
    require_even(along, order, names);
    geometry.axes[2] = difference(last.origin, first.origin);
    for (double& value : geometry.axes[2]) value /= static_cast<double>(planes.size() - 1);
  } else if (!is_stated(any.through)) {
    throw DataError("it is a single slice, of no known thickness; expected a volume of several");
  }
  geometry.places.resize(planes.size());
  for (std::size_t k = 0; k < order.size(); ++k) geometry.places[order[k]] = k;
  return geometry;
}

// Memory is touched as values come: a damaged header may announce more of them than there are.
Volume::Volume(VolumeGeometry geometry)
    : geometry_(std::move(geometry)),
      integers_(std::make_unique_for_overwrite<std::int16_t[]>(
          static_cast<std::size_t>(geometry_.voxels()))) {}

void Volume::turn_to_reals(std::size_t planes) {
  reals_ = std::make_unique_for_overwrite<float[]>(static_cast<std::size_t>(geometry_.voxels()));
  const auto values = static_cast<std::size_t>(geometry_.size[0] * geometry_.size[1]);
  for (std::size_t plane = 0; plane < planes; ++plane) {
    const std::size_t at = geometry_.places[plane] * values;
    std::copy_n(integers_.get() + at, values, reals_.get() + at);
  }
  integers_.reset();
}

void Volume::set_plane(std::size_t plane, std::span<const double> values) {
  using Limits = std::numeric_limits<std::int16_t>;
  const auto is_integer = [](double value) {
    return value >= Limits::min() && value <= Limits::max() && value == std::floor(value);
  };
  if (!reals_ && !std::ranges::all_of(values, is_integer)) turn_to_reals(plane);
  const std::size_t at = geometry_.places[plane] * values.size();
  if (reals_)
    std::ranges::transform(values, reals_.get() + at, [](double v) {
      constexpr double kMax = std::numeric_limits<float>::max();
      return static_cast<float>(std::isfinite(v) ? std::clamp(v, -kMax, kMax) : v);
    });
  else
    std::ranges::transform(values, integers_.get() + at,
                           [](double v) { return static_cast<std::int16_t>(v); });
}

}  // namespace coldframe::frames
