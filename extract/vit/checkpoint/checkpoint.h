// Recognises, by their head, files left in place of weights by a failed download.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/files/bytes.h"
#include "common/torch/safetensors.h"

namespace coldframe::vit {

// "a Git LFS pointer, …; fetch the file itself with 'git lfs pull'", or similar for a web page;
// empty for any other file.
std::string stand_in(const ByteSource& file);

// Weights from disk: safetensors and PyTorch's .pth, never executing code from a file.

// Reads a checkpoint by its content (safetensors, .pth zip, .pth legacy): the tensors as stored.
// Nested `model`/`state_dict`/`teacher`/`student` and the like and the prefixes
// `module.`/`backbone.` are resolved. DataError: truncated, hostile or unknown content; rejects a
// pickle that calls anything but tensor constructors, naming the callable.
StateDict load_checkpoint(const std::filesystem::path& path);

// The same with unchanged names.
StateDict read_tensors(const std::filesystem::path& path);

// Resolves --weights to files.

struct WeightFiles {
  std::filesystem::path given;               // the path as given
  std::vector<std::filesystem::path> files;  // one, or shards in the order of their names
  // The shard of each tensor, from an index file; empty without one.
  std::map<std::string, std::filesystem::path> shard_of;
  std::filesystem::path folder;  // may contain a config
};

// Accepts a file of weights, an index of shards (*.index.json), or a folder that has
// model.safetensors, open_clip_model.safetensors, pytorch_model.bin, open_clip_pytorch_model.bin,
// an index of shards, or one file of weights of any name. DataError: no or several such files, and
// an index that names a file outside its folder (a link into the blobs of the hub's cache is one
// inside), or a missing one.
WeightFiles find_weight_files(const std::filesystem::path& path);

// All tensors, without common prefixes. DataError: a tensor is in two shards, in another shard than
// the index states, or in none.
StateDict load_weights(const WeightFiles& files);

// The keys that lead to the tensors that are taken of a training checkpoint ("target_encoder"); ""
// where they are at its top.
std::string part_taken(const WeightFiles& files);

// For one file, its SHA-256; for several, the SHA-256 of the lines "SHA-256 NAME".
std::string digest_of(const WeightFiles& files);

}  // namespace coldframe::vit
