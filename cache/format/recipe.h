// A recipe says what a cache was made with. Two caches may be mixed or compared only if their
// recipes say so.
#pragma once

#include <string>
#include <vector>

#include "common/files/json.h"

namespace coldframe::cache {

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

  // Takes what is no longer stored out of `storage`, and the option that asked for it out of the
  // notes; they have one name.
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

}  // namespace coldframe::cache
