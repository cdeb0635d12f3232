// The thumbnails that go into a report.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cache/read/reader.h"
#include "common/charts/html.h"

namespace coldframe::cache::tool {

// Hands out the thumbnails of exam after exam, until they would be too many for a page.
class Pictures {
 public:
  // `most`: bytes of JPEG. 0, or a cache without thumbnails: there are no pictures.
  Pictures(const CacheReader& cache, std::uint64_t most);

  // One for each of `frames`; empty when the exam has none, or they do not fit any more.
  std::vector<html::Picture> of(std::size_t exam, const std::vector<std::size_t>& frames);

  bool wanted() const { return most_ > 0; }
  bool is_full() const { return left_out_ > 0; }
  // A paragraph on what is in the page.
  std::string note() const;

 private:
  const CacheReader& cache_;
  std::uint64_t most_, bytes_ = 0;
  std::size_t left_out_ = 0;
};

}  // namespace coldframe::cache::tool
