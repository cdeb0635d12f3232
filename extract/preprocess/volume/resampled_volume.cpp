#include "extract/preprocess/volume/resampled_volume.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::preprocess {
namespace {

constexpr double kSameSpacing = 1e-3, kSameFraction = 1e-2;
constexpr std::int64_t kMaxSide = std::int64_t{1} << 20;
constexpr double kMaxVoxels = 0x1p40;

// Patient axis (0 = x, 1 = y, 2 = z) and whether it runs against RAS.
struct Direction {
  std::size_t axis;
  bool is_reversed;
};

Direction direction_of(char letter) {
  constexpr std::string_view kForwards = "RAS", kBackwards = "LPI";
  const std::size_t forwards = kForwards.find(letter);
  return forwards != kForwards.npos ? Direction{forwards, false}
                                    : Direction{kBackwards.find(letter), true};
}

// Between which of the file's voxels a voxel of the grid lies, as offsets in memory.
struct Between {
  std::int64_t low = 0, high = 0;
  double towards_high = 0;
};

// Of the voxels [begin, end) of an axis, which lie within the grid.
std::vector<Between> neighbours(const VolumeGrid::Axis& axis, std::int64_t stride,
                                std::int64_t begin, std::int64_t end) {
  std::vector<Between> all;
  const std::int64_t last = axis.file_size - 1;
  for (std::int64_t i = begin; i < end; ++i) {
    const double place = std::clamp(axis.first + static_cast<double>(axis.begin + i) * axis.step,
                                    0.0, static_cast<double>(last));
    const auto low = static_cast<std::int64_t>(place);
    const double towards_high = place - static_cast<double>(low);
    const std::int64_t high = low + (towards_high > 0);  // a NaN next to it stays there
    const auto offset = [&](std::int64_t voxel) {
      return (axis.is_reversed ? last - voxel : voxel) * stride;
    };
    all.push_back({offset(low), offset(high), towards_high});
  }
  return all;
}

double between(double low, double high, double towards_high) {
  return towards_high > 0 ? low + (high - low) * towards_high : low;  // an infinity stays one
}

float in_window(double value, const frames::ValueRange& range) {
  const double level = (value - range.low) / (range.high - range.low);
  return level > 0 ? static_cast<float>(std::min(level, 1.0)) : 0.0f;  // NaN: 0
}

// Where axes_[a] keeps its voxels, one line along the last axis.
template <typename Value>
void interpolate_line(const Value* values, const Between& x, const Between& y,
                      const std::vector<Between>& line, const frames::ValueRange& range,
                      float* out) {
  const Value *const a = values + x.low + y.low, *const b = values + x.low + y.high,
                     *const c = values + x.high + y.low, *const d = values + x.high + y.high;
  for (const Between& z : line) {
    const auto along_z = [&](const Value* from) {
      return between(from[z.low], from[z.high], z.towards_high);
    };
    const double low = between(along_z(a), along_z(b), y.towards_high),
                 high = between(along_z(c), along_z(d), y.towards_high);
    *out++ = in_window(between(low, high, x.towards_high), range);
  }
}

}  // namespace

VolumeGrid::VolumeGrid(const frames::VolumeGeometry& file, const VolumeRule& rule) : file_(file) {
  if (rule.is_resampled() && file.is_sheared())
    throw DataError(
        "its axes are not at right angles (a tilted gantry?), and --spacing resamples along them; "
        "straighten it before, or leave --spacing out");
  const frames::Orientation ras = file.orientation();
  double voxels = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    const Direction direction = direction_of(rule.orientation[a]);
    Axis& axis = axes_[a];
    axis.of_file = static_cast<std::size_t>(ras[direction.axis].axis);
    axis.is_reversed = ras[direction.axis].flipped != direction.is_reversed;
    axis.file_size = axis.size = file.size[axis.of_file];
    axis.spacing_mm = frames::length(file.axes[axis.of_file]);
    const double wanted = rule.spacing_mm[a];
    const double tolerance = std::min(kSameSpacing, kSameFraction * wanted);
    if (!rule.is_resampled() || std::abs(axis.spacing_mm - wanted) <= tolerance) continue;
    axis.step = wanted / axis.spacing_mm;
    const double size = std::nearbyint(static_cast<double>(axis.file_size - 1) / axis.step + 1);
    voxels *= size;
    if (size > static_cast<double>(kMaxSide) || voxels > kMaxVoxels)
      throw DataError(concat("at --spacing ", wanted, " it would have ", fixed(size, 0),
                             " voxels along one axis; its own are ", axis.spacing_mm,
                             " mm apart: check both"));
    axis.size = static_cast<std::int64_t>(size);
    axis.spacing_mm = wanted;
  }
  if (!rule.is_resampled() || first_voxels_coincide()) return;
  for (Axis& axis : axes_)
    axis.first =
        (static_cast<double>(axis.file_size) - static_cast<double>(axis.size) * axis.step) / 2;
}

// In voxels of the grid, no corner of the file's lies before the first one. The grid's directions
// are those of the orthogonal factor of the file's axes, in the grid's order, whose triangular
// factor has these entries above the diagonal.
bool VolumeGrid::first_voxels_coincide() const {
  constexpr double kTolerance = 1e-8;
  std::array<frames::Point, 3> axes{};
  for (std::size_t a = 0; a < 3; ++a)
    for (std::size_t i = 0; i < 3; ++i)
      axes[a][i] = (axes_[a].is_reversed ? -1 : 1) * file_.axes[axes_[a].of_file][i];
  const double first = frames::length(axes[0]);
  const double a01 = frames::dot(axes[0], axes[1]) / first,
               a02 = frames::dot(axes[0], axes[2]) / first;
  const double second = std::sqrt(frames::dot(axes[1], axes[1]) - a01 * a01);
  const double a12 = (frames::dot(axes[1], axes[2]) - a01 * a02) / second;
  const auto before = [&](double along, std::size_t other, std::size_t axis) {
    return std::min(0.0, along * static_cast<double>(axes_[other].file_size - 1)) /
           axes_[axis].spacing_mm;
  };
  return before(a01, 1, 0) + before(a02, 2, 0) >= -kTolerance && before(a12, 2, 1) >= -kTolerance;
}

frames::Point VolumeGrid::at_mm(const frames::Point& voxel) const {
  frames::Point of_file{};
  for (std::size_t a = 0; a < 3; ++a) {
    const Axis& axis = axes_[a];
    const double place = axis.first + (static_cast<double>(axis.begin) + voxel[a]) * axis.step;
    of_file[axis.of_file] =
        axis.is_reversed ? static_cast<double>(axis.file_size - 1) - place : place;
  }
  return file_.at(of_file);
}

void VolumeGrid::crop(const Size3& begin, const Size3& size) {
  for (std::size_t a = 0; a < 3; ++a) {
    axes_[a].begin += begin[a];
    axes_[a].size = size[a];
  }
}

void resample(const frames::Volume& volume, const VolumeGrid& grid, const frames::ValueRange& range,
              const Size3& begin, const Size3& size, std::span<float> out) {
  const auto& file = volume.geometry().size;
  const std::array<std::int64_t, 3> strides{1, file[0], file[0] * file[1]};
  std::array<std::vector<Between>, 3> lines;
  Size3 first{};
  for (std::size_t a = 0; a < 3; ++a) {
    const VolumeGrid::Axis& axis = grid.axis(a);
    first[a] = std::max<std::int64_t>(0, begin[a]);
    const std::int64_t end = std::max(first[a], std::min(axis.size, begin[a] + size[a]));
    lines[a] = neighbours(axis, strides[axis.of_file], first[a], end);
    first[a] -= begin[a];
  }
  std::ranges::fill(out, 0.0f);
  volume.with_values([&](const auto* values) {
    for (std::size_t x = 0; x < lines[0].size(); ++x)
      for (std::size_t y = 0; y < lines[1].size(); ++y) {
        const std::int64_t line = (first[0] + static_cast<std::int64_t>(x)) * size[1] + first[1] +
                                  static_cast<std::int64_t>(y);
        interpolate_line(values, lines[0][x], lines[1][y], lines[2], range,
                         out.data() + line * size[2] + first[2]);
      }
  });
}

namespace {

// The smallest box of what was added.
struct Box {
  Size3 begin{kMaxSide, kMaxSide, kMaxSide}, end{};

  bool holds(const Size3& from, const Size3& to) const {
    bool inside = true;
    for (std::size_t a = 0; a < 3; ++a) inside = inside && from[a] >= begin[a] && to[a] <= end[a];
    return inside;
  }
  void add(const Size3& voxel) {
    for (std::size_t a = 0; a < 3; ++a) {
      begin[a] = std::min(begin[a], voxel[a]);
      end[a] = std::max(end[a], voxel[a] + 1);
    }
  }
};

}  // namespace

void crop_to_body(const frames::Volume& volume, const frames::ValueRange& range, VolumeGrid& grid) {
  constexpr std::int64_t kSide = 64;
  const Size3 whole = grid.size();
  Box box;
  std::vector<float> part(static_cast<std::size_t>(kSide * kSide * kSide));
  for (std::int64_t x = 0; x < whole[0]; x += kSide)
    for (std::int64_t y = 0; y < whole[1]; y += kSide)
      for (std::int64_t z = 0; z < whole[2]; z += kSide) {
        const Size3 from{x, y, z}, to{std::min(x + kSide, whole[0]), std::min(y + kSide, whole[1]),
                                      std::min(z + kSide, whole[2])};
        if (box.holds(from, to)) continue;
        resample(volume, grid, range, from, {kSide, kSide, kSide}, part);
        for (std::size_t i = 0; i < part.size(); ++i) {
          const auto at = static_cast<std::int64_t>(i);
          if (part[i] > 0)
            box.add({x + at / (kSide * kSide), y + at / kSide % kSide, z + at % kSide});
        }
      }
  if (box.end[0] == 0)
    throw DataError(
        "no voxel is above the lower end of --window, so --crop body leaves nothing; check the "
        "window's units");
  Size3 size{};
  for (std::size_t a = 0; a < 3; ++a) size[a] = box.end[a] - box.begin[a];
  grid.crop(box.begin, size);
}

namespace {

void require_values(const frames::Volume& volume) {
  bool any = false;
  volume.with_values([&](const auto* values) {
    const auto is_finite = [](auto value) { return std::isfinite(static_cast<double>(value)); };
    any = std::any_of(values, values + volume.geometry().voxels(), is_finite);
  });
  if (!any) throw DataError("none of its values is a finite number");
}

}  // namespace

frames::ValueRange range_of(const frames::Volume& volume, const frames::Window& window) {
  require_values(volume);
  if (window.kind == frames::Window::Kind::kFixed)
    return {window.center - window.width / 2, window.center + window.width / 2};
  frames::ValueSurvey survey;
  volume.with_values([&](const auto* values) {
    for (std::int64_t i = 0; i < volume.geometry().voxels(); ++i)
      survey.add(static_cast<double>(values[i]));
  });
  const frames::ValueRange range = survey.range(window);
  if (!(range.low < range.high))
    throw DataError(concat("its values at the percentiles of --window are both ", range.low,
                           "; give wider ones, or --window CENTER,WIDTH"));
  return range;
}

}  // namespace coldframe::preprocess
