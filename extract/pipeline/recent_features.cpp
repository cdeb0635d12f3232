#include "extract/pipeline/recent_features.h"

#include <algorithm>

namespace coldframe::extract {

RecentFeatures::RecentFeatures(std::size_t capacity, std::size_t dimension)
    : dimension_(dimension), values_(capacity * dimension) {
  digests_.reserve(capacity);
}

std::span<const float> RecentFeatures::find(const FrameDigest& digest) const {
  const auto place = places_.find(digest);
  if (place == places_.end()) return {};
  return std::span(values_).subspan(place->second * dimension_, dimension_);
}

void RecentFeatures::add(const FrameDigest& digest, std::span<const float> feature) {
  const std::size_t capacity = values_.size() / dimension_;
  std::size_t place = digests_.size();
  if (place < capacity) {
    digests_.push_back(digest);
  } else {
    place = oldest_;
    oldest_ = (oldest_ + 1) % capacity;
    places_.erase(digests_[place]);
    digests_[place] = digest;
  }
  places_[digest] = place;
  std::copy(feature.begin(), feature.end(),
            values_.begin() + static_cast<std::ptrdiff_t>(place * dimension_));
}

}  // namespace coldframe::extract
