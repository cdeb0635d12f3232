// --recheck: features that a cache holds, computed again from their sources. Tells whether the
// sources, the decoders, the weights and the machine still give what the cache says.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "cache/read/reader.h"
#include "common/files/json.h"
#include "extract/pipeline/pipeline.h"

namespace coldframe::extract {

// Below this cosine a frame counts as another one. Other machines and batch sizes round
// differently, even in bf16 by far less.
inline constexpr double kSameFrameCosine = 0.999;

struct FrameComparison {
  std::string exam;
  std::size_t frame = 0;
  std::string view = "clean";
  double cosine = std::numeric_limits<double>::quiet_NaN();  // NaN: one of the two is missing
};

struct RecheckResult {
  std::size_t exams = 0;                // extracted again
  std::size_t views = 1;                // of the cache; `frames` has an entry for each
  std::size_t identical = 0;            // of `frames`, bit for bit
  std::vector<FrameComparison> frames;  // those drawn, the least similar first
  std::vector<std::string> problems;    // "exam 'P3' can no longer be read: …"
  bool stopped = false;                 // by a signal, before all was done
};

// Draws `count` of the present frames of exams that both `input` and `cached` have (all, if there
// are fewer; another draw for another `seed`), extracts their exams again into a temporary folder,
// and compares all of their views. DataError when the input has no exam of the cache.
RecheckResult recheck(const frames::ExamList& input, const ExtractOptions& options,
                      const cache::CacheReader& cached, vit::Backbone& backbone,
                      const torch::Device& device, std::size_t count, std::uint64_t seed);

// True if every frame is still the same.
bool is_clean(const RecheckResult& result);
std::string to_text(const RecheckResult& result);
Json to_json(const RecheckResult& result);

}  // namespace coldframe::extract
