#include "extract/preprocess/volume/blocks.h"

#include <algorithm>
#include <cmath>

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::preprocess {

Json to_json(const VolumeRule& rule) {
  Json json{{"block", rule.block}, {"orientation", rule.orientation}, {"overlap", rule.overlap}};
  if (rule.is_resampled()) json["spacing_mm"] = rule.spacing_mm;
  if (rule.crop_to_body) json["crop"] = "body";
  if (rule.is_pooled) json["blend"] = word_for(kBlends, rule.blend);
  return json;
}

void require_orientation(const std::string& orientation) {
  std::string axes = orientation;
  for (char& letter : axes)
    letter = letter == 'L' ? 'R' : letter == 'P' ? 'A' : letter == 'I' ? 'S' : letter;
  std::ranges::sort(axes);
  if (axes != "ARS")
    throw ConfigError(concat("--orientation '", orientation,
                             "': expected the directions of three axes, R or L, A or P, and S or "
                             "I, each once, such as RAS"));
}

BlockGrid::BlockGrid(const Size3& volume, const VolumeRule& rule)
    : volume_(volume), block_(rule.block), pad_{}, blend_(rule.blend) {
  constexpr double kMaxBlocks = 1e6;
  double blocks = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t edge = block_[axis], whole = std::max(volume[axis], edge);
    pad_[axis] = (whole - volume[axis]) / 2;
    const auto step = std::max<std::int64_t>(
        1, static_cast<std::int64_t>(static_cast<double>(edge) * (1 - rule.overlap)));
    std::int64_t start = 0;
    for (; start + edge < whole; start += step) starts_[axis].push_back(start);
    starts_[axis].push_back(whole - edge);
    if (static_cast<double>(starts_[axis].size()) * blocks > kMaxBlocks)
      throw DataError(concat("it would be cut into more than ", fixed(kMaxBlocks, 0),
                             " blocks; check --block, --spacing and --block-overlap"));
    blocks *= static_cast<double>(starts_[axis].size());
  }
}

std::array<std::size_t, 3> BlockGrid::at(std::size_t block) const {
  const std::size_t second = starts_[1].size(), third = starts_[2].size();
  return {block / third / second, block / third % second, block % third};
}

Size3 BlockGrid::begin(std::size_t block) const {
  const auto place = at(block);
  Size3 begin{};
  for (std::size_t axis = 0; axis < 3; ++axis)
    begin[axis] = starts_[axis][place[axis]] - pad_[axis];
  return begin;
}

double BlockGrid::padded_fraction(std::size_t block) const {
  const Size3 from = begin(block);
  double inside = 1;
  for (std::size_t axis = 0; axis < 3; ++axis) {
    const std::int64_t first = std::max<std::int64_t>(0, from[axis]),
                       last = std::min(volume_[axis], from[axis] + block_[axis]);
    inside *= static_cast<double>(last - first) / static_cast<double>(block_[axis]);
  }
  return 1 - inside;
}

namespace {

constexpr double kSigma = 0.125, kLeastImportance = 1e-3;  // as MONAI's compute_importance_map

// One axis of the blocks' maps, of which each position stands for some voxels of a block.
class MapAxis {
 public:
  MapAxis(std::int64_t volume, std::int64_t block, std::int64_t pad, std::int64_t map, Blend blend,
          const std::vector<std::int64_t>& starts)
      : map_(map) {
    const auto scaled = [&](std::int64_t voxel) { return voxel * map / block; };
    for (const std::int64_t start : starts) starts_.push_back(scaled(start));
    end_ = starts_.back() + map;
    if (volume < block) {
      const auto rounded = [&](std::int64_t voxel) {
        return static_cast<std::int64_t>(
            std::nearbyint(static_cast<double>(voxel * map) / static_cast<double>(block)));
      };
      begin_ = std::min(rounded(pad), map - 1);
      end_ = std::max(rounded(pad + volume), begin_ + 1);
    }
    const double sigma = kSigma * static_cast<double>(block);
    const auto importance = [&](double voxel) {
      const double distance = voxel - static_cast<double>(block - 1) / 2;
      return blend == Blend::kConstant ? 1 : std::exp(-distance * distance / (2 * sigma * sigma));
    };
    // The voxel at the position's centre (nearest-exact).
    for (std::int64_t i = 0; i < map; ++i)
      importance_.push_back(importance(static_cast<double>((2 * i + 1) * block / (2 * map))));
    least_ = importance(0);
  }

  std::int64_t length() const { return end_ - begin_; }  // of the volume
  double least() const { return least_; }                // importance of a block's first voxel
  double importance(std::int64_t position) const {
    return importance_[static_cast<std::size_t>(position)];
  }
  bool is_inside(std::size_t block, std::int64_t position) const {
    const std::int64_t place = starts_[block] + position;
    return place >= begin_ && place < end_;
  }
  // Of every block that covers a position of this one, its importance there.
  std::vector<double> importances(std::size_t block, std::int64_t position) const {
    std::vector<double> all;
    for (const std::int64_t start : starts_) {
      const std::int64_t own = starts_[block] + position - start;
      if (own >= 0 && own < map_) all.push_back(importance(own));
    }
    return all;
  }

 private:
  std::int64_t map_, begin_ = 0, end_ = 0;  // the volume's positions
  std::vector<std::int64_t> starts_;
  std::vector<double> importance_;
  double least_ = 1;
};

}  // namespace

std::vector<float> BlockGrid::map_weights(std::size_t block, const Size3& map) const {
  const auto place = at(block);
  std::vector<MapAxis> axes;
  std::array<std::vector<std::vector<double>>, 3> covering;
  double positions = 1, least = 1;
  for (std::size_t a = 0; a < 3; ++a) {
    axes.emplace_back(volume_[a], block_[a], pad_[a], map[a], blend_, starts_[a]);
    positions *= static_cast<double>(axes[a].length());
    least *= axes[a].least();
    for (std::int64_t i = 0; i < map[a]; ++i)
      covering[a].push_back(axes[a].importances(place[a], i));
  }
  least = std::max(least, kLeastImportance);
  const double scale = static_cast<double>(count()) / positions;
  std::vector<float> weights;
  weights.reserve(static_cast<std::size_t>(voxels_of(map)));
  for (std::int64_t x = 0; x < map[0]; ++x)
    for (std::int64_t y = 0; y < map[1]; ++y)
      for (std::int64_t z = 0; z < map[2]; ++z) {
        const bool inside = axes[0].is_inside(place[0], x) && axes[1].is_inside(place[1], y) &&
                            axes[2].is_inside(place[2], z);
        const double own = axes[0].importance(x) * axes[1].importance(y) * axes[2].importance(z);
        double all = 0;
        for (const double a : covering[0][static_cast<std::size_t>(x)])
          for (const double b : covering[1][static_cast<std::size_t>(y)])
            for (const double c : covering[2][static_cast<std::size_t>(z)])
              all += std::max(a * b * c, least);
        weights.push_back(inside ? static_cast<float>(scale * std::max(own, least) / all) : 0);
      }
  return weights;
}

}  // namespace coldframe::preprocess
