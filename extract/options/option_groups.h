// The options of `extract` that come in groups: each binds its words and turns them into what they
// mean. Internal to options.cpp.
#pragma once

#include <boost/program_options.hpp>
#include <limits>
#include <string>

#include "extract/options/options.h"

namespace coldframe::extract {

// A number that was not given.
inline constexpr int kNotGiven = std::numeric_limits<int>::min();

// The options on what is read: --input, which of its frames, how files become frames, how patients
// are named.
struct InputOptions {
  std::string input, columns, frame_columns, sort, window, axis, slices, group, patient_salt;
  std::int64_t frames = kNotGiven, every = kNotGiven;
  double fps = kNotGiven, start = kNotGiven, end = kNotGiven;

  void describe(boost::program_options::options_description& description, ExtractOptions& options);
  void apply(ExtractOptions& options) const;  // ConfigError

 private:
  void apply_selection(frames::FrameSelection& selection) const;
};

// The options on what happens to a frame before the backbone sees it. apply() changes the preset's
// values, which `options.preprocessing` holds.
struct PixelOptions {
  std::string resize, interpolation, resampler, mean, std, crop, mask, tiles;
  std::string image_size;
  int tile_size = kNotGiven;
  double crop_pct = kNotGiven, spacing = kNotGiven;

  void describe(boost::program_options::options_description& description);
  void apply(ExtractOptions& options) const;  // ConfigError; DataError for an unreadable mask

 private:
  void apply_resize(preprocess::Preprocessing& preprocessing) const;
  void apply_tiles(preprocess::Preprocessing& preprocessing) const;
};

// Augmented versions of the frames, beside them in the cache.
struct ViewOptions {
  std::string augment, reuse;
  std::int64_t views = kNotGiven, seed = kNotGiven;

  void describe(boost::program_options::options_description& description);
  void apply(ExtractOptions& options) const;  // ConfigError
};

// The options on what computes, how much at once, and within which memory.
struct MachineOptions {
  std::string device, devices, batch = "auto", memory_budget, monitor;

  void describe(boost::program_options::options_description& description, ExtractOptions& options);
  void apply(ExtractOptions& options) const;  // ConfigError
};

}  // namespace coldframe::extract
