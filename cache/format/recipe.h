// The types of numbers in which a cache may store features.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "common/files/json.h"
#include "common/numbers/dtype.h"
#include "common/text/spelling.h"

namespace coldframe::cache {

inline const WordTable<DType> kStorageTypes{{"float16", DType::kFp16}, {"float32", DType::kFp32}};

// A recipe says what a cache was made with. Two caches may be mixed or compared only if their
// recipes say so.

// The note, and the key of a run's config.json, of the licence of the backbone's weights.
inline constexpr const char* kWeightsLicense = "weights_license";

struct Recipe {
  // Everything that decides the features of one frame: weights' SHA-256, architecture, pooling, the
  // pixel pipeline. `predict` and `evaluate` compare its digest.
  Json features = Json::object();
  // `storage` says which frames and views are stored, and as what: frame selection, views, storage
  // type. Resume and merge compare this too.
  Json storage = Json::object();
  // Notes are for people; no digest counts them, since they may change without the features
  // changing: FORMAT.md lists them.
  Json notes = Json::object();

  // True when the cache holds a small JPEG of every frame: `storage` has the key "thumbnails".
  bool has_thumbnails() const { return storage.contains("thumbnails"); }

  // The text of a note; "" if there is none.
  std::string note(const std::string& key) const;

  // Removes `key` from `storage` and the option of the same name from the notes: it is no longer
  // stored.
  void leave_out(const std::string& key);

  std::string feature_digest() const;  // SHA-256 of the canonical JSON of `features`
  std::string cache_digest() const;    // of both
};

// The two sides of a comparison, as its lines name them.
struct Sides {
  std::string a = "cache has", b = "now";
};
// "KEY: cache has A, now B"
std::string difference(const std::string& key, const std::string& a, const std::string& b,
                       const Sides& sides = {});
// One line per key that differs, nested keys joined with dots:
// "preprocessing.interpolation: cache has \"bicubic\", now \"bilinear\"".
std::vector<std::string> differences(const Json& a, const Json& b, const Sides& sides = {});
std::vector<std::string> differences(const Recipe& a, const Recipe& b, const Sides& sides = {});

Json to_json(const Recipe& recipe);         // {"features": …, "storage": …}, without notes
Recipe recipe_from_json(const Json& json);  // CacheError when it is not one

// A cut cache also holds, for each frame of each view, what enters one block of the ViT: that block
// and all later ones can then be trained without the frames and the earlier blocks.

struct Cut {
  std::int64_t block = 0;  // counted from 0; before block 0 the frames themselves are kept
  // One frame's: tokens [N, D], prefix tokens and positions included, or pixels [H, W, 3].
  std::vector<std::int64_t> shape;
  DType storage = DType::kFp16;  // of tokens; pixels are uint8

  bool is_pixels() const { return block == 0; }
  DType type() const { return is_pixels() ? DType::kUint8 : storage; }
  std::size_t row_bytes() const;  // of one frame
  bool operator==(const Cut&) const = default;
};

// Stored rows as numbers.
std::vector<float> values_of(const Cut& cut, std::span<const std::byte> rows);

// The value of Recipe::storage under "cut": {"block": 8, "shape": [197, 384]}.
Json to_json(const Cut& cut);
// `storage`: of the cache. CacheError when the recipe's cut is none.
std::optional<Cut> find_cut(const Recipe& recipe, DType storage);

}  // namespace coldframe::cache
