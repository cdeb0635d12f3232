// Blocks of a volume: how a volume is laid out for an encoder, where blocks lie in it, and what
// each weighs in the mean over the volume.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/text/spelling.h"

namespace coldframe::preprocess {

using Size3 = std::array<std::int64_t, 3>;

inline std::int64_t voxels_of(const Size3& size) {
  return size[0] * size[1] * size[2];
}

// How overlapping blocks share a voxel: alike, or by a Gaussian around each block's centre with a
// standard deviation of 0.125 of its edges (BlendMode and sigma_scale of MONAI's
// sliding_window_inference).
enum class Blend { kConstant, kGaussian };
inline const WordTable<Blend> kBlends{{"constant", Blend::kConstant},
                                      {"gaussian", Blend::kGaussian}};

// --block and what goes with it. The three axes are those of `orientation`: of RAS, the first one
// runs from left to right, the second from posterior to anterior, the third from inferior to
// superior. In memory the last one is the fastest: an encoder's input is [B, 1, X, Y, Z].
struct VolumeRule {
  Size3 block{};  // voxels; zeros: inputs are no volumes
  std::string orientation = "RAS";
  std::array<double, 3> spacing_mm{};  // zeros: the file's own
  bool crop_to_body = false;
  double overlap = 0.25;   // of neighbouring blocks, as a fraction of a block's edges
  bool is_pooled = false;  // one row for all blocks, else one for each
  Blend blend = Blend::kConstant;

  bool is_on() const { return block[0] > 0; }
  bool is_resampled() const { return spacing_mm[0] > 0; }
  const char* row_name() const { return is_pooled ? "volume" : "block"; }
  bool operator==(const VolumeRule&) const = default;
};

// As features.preprocessing of a recipe; leaves out what has its default.
Json to_json(const VolumeRule& rule);

// Throws ConfigError unless it has one of R and L, of A and P, and of S and I.
void require_orientation(const std::string& orientation);

// Places blocks as MONAI's sliding_window_inference: along each axis they begin every
// floor(edge · (1 − overlap)) voxels, at least 1; the last one is moved back to end with the
// volume. A volume that is smaller than a block lies in its middle, and padding around it.
class BlockGrid {
 public:
  BlockGrid(const Size3& volume, const VolumeRule& rule);

  std::size_t count() const { return starts_[0].size() * starts_[1].size() * starts_[2].size(); }
  // The first voxel of a block in the volume; negative where it is padding. Blocks are counted
  // along the last axis first.
  Size3 begin(std::size_t block) const;
  double padded_fraction(std::size_t block) const;

  // Weights of a block's map [m0, m1, m2] of features: the mean over all blocks of their weighted
  // sums is the mean over the volume of what sliding_window_inference makes of all maps, at the
  // maps' own resolution. Positions that lie in padding weigh nothing.
  std::vector<float> map_weights(std::size_t block, const Size3& map) const;

 private:
  std::array<std::size_t, 3> at(std::size_t block) const;

  Size3 volume_, block_, pad_;  // `pad_`: voxels before the volume
  Blend blend_;
  std::array<std::vector<std::int64_t>, 3> starts_;  // in the padded volume
};

}  // namespace coldframe::preprocess
