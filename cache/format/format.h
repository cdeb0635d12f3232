// The constants of cache format v1 (FORMAT.md is the prose). It and shard.h are the only places
// that spell the name of a group, a dataset or an attribute.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coldframe::cache {

inline constexpr std::int64_t kFormatVersion = 1;
inline constexpr const char* kFormatName = "coldframe-cache";

// Root attributes.
inline constexpr const char* kAttributeFormat = "format";
inline constexpr const char* kAttributeVersion = "format_version";
inline constexpr const char* kAttributeWriter = "writer";
inline constexpr const char* kAttributeRecipe = "recipe";
inline constexpr const char* kAttributeNotes = "notes";  // only where there are some
inline constexpr const char* kAttributeFeatureDigest = "feature_digest";
inline constexpr const char* kAttributeCacheDigest = "cache_digest";
inline constexpr const char* kAttributeDimension = "dimension";
inline constexpr const char* kAttributeStorage = "storage";      // "float16" or "float32"
inline constexpr const char* kAttributePrecision = "precision";  // a list: a packed cache may mix
inline constexpr const char* kAttributeViews = "views";          // a list, "clean" first

// Groups. shard.h has the datasets in them.
inline constexpr const char* kFeatures = "features";
inline constexpr const char* kFrames = "frames";
inline constexpr const char* kExams = "exams";
inline constexpr const char* kFailures = "failures";
// Only where the recipe's storage has keys of these names.
inline constexpr const char* kCut = "cut";  // a dataset for each view
inline constexpr const char* kThumbnails = "thumbnails";
inline constexpr const char* kThumbnailData = "thumbnails/data";

inline constexpr std::uint64_t kChunkBytes = 128u << 10;  // about one read of a streaming trainer
inline constexpr std::uint64_t kFletcherBytes = 4;        // after every chunk
inline constexpr std::uint64_t kDigestBytes = 16;         // XXH3-128
inline constexpr std::uint64_t kTrailerBytes = 2 * kDigestBytes;  // of the metadata, of the whole
inline constexpr std::size_t kMaxText = 60000;                    // an attribute must fit in 64 KiB
inline constexpr std::size_t kMaxLinkName = 1024;
inline constexpr std::int64_t kLargestDimension = 1 << 20;

// Names of columns and views as names of datasets: "%XX" for '%', '/', control characters and a
// leading '.', all of which HDF5 would take for something else.
std::string escape_name(std::string_view name);
std::string unescape_name(
    std::string_view escaped);  // CacheError for what escape_name never writes

// join_path("exams", "columns", "a%2Fb") -> "exams/columns/a%2Fb"
template <typename... Parts>
std::string join_path(std::string first, const Parts&... parts) {
  ((first.append("/").append(parts)), ...);
  return first;
}

}  // namespace coldframe::cache
