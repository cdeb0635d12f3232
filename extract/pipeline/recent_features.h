// The features of frames computed lately, found by the frames' content: a frozen picture, a clip
// that was exported twice or a loop is computed once.
#pragma once

#include <cstddef>
#include <cstring>
#include <span>
#include <unordered_map>
#include <vector>

#include "extract/pipeline/decode/decoded.h"

namespace coldframe::extract {

struct FrameDigestHash {
  std::size_t operator()(const FrameDigest& digest) const {
    std::size_t hash = 0;
    std::memcpy(&hash, digest.data(), sizeof hash);
    return hash;
  }
};

// Holds `capacity` features of `dimension` values each; the oldest makes room for the newest.
class RecentFeatures {
 public:
  RecentFeatures(std::size_t capacity, std::size_t dimension);

  // Empty when it is not there. Valid until the next add().
  std::span<const float> find(const FrameDigest& digest) const;
  void add(const FrameDigest& digest, std::span<const float> feature);

 private:
  std::size_t dimension_, oldest_ = 0;
  std::vector<float> values_;  // [capacity, D]
  std::vector<FrameDigest> digests_;
  std::unordered_map<FrameDigest, std::size_t, FrameDigestHash> places_;
};

}  // namespace coldframe::extract
