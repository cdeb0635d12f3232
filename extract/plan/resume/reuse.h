// Features that another cache has already: `--reuse` makes a cache with further views, or with
// thumbnails, without computing again what stays as it is.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <vector>

#include "cache/read/reader.h"
#include "extract/plan/resume/resume.h"

namespace coldframe::extract {

class ReusableCache {
 public:
  // CacheError as CacheReader's.
  explicit ReusableCache(const std::filesystem::path& path);

  const cache::CacheReader& reader() const { return reader_; }

  // Finds how many of its views serve the recipe. CacheError, which lists what differs: its
  // features were made otherwise, in another precision, of other frames or stored as something
  // else.
  void serve(const cache::Recipe& recipe, const std::string& precision);

  // Notes with each exam that is to be extracted what this cache has of it, as long as the exam's
  // sources are those that it was extracted from. A stop request ends that early. The plan must not
  // outlive this.
  void mark(const PlanOptions& options, Plan& plan) const;

 private:
  std::filesystem::path path_;
  cache::CacheReader reader_;
  std::size_t views_ = 0;  // that serve, the clean one first
};

}  // namespace coldframe::extract
