// Files that lie in the place of weights when a download went wrong are known by their beginning.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "common/files/bytes.h"
#include "common/torch/safetensors.h"

namespace coldframe::vit {

// "a Git LFS pointer, …; fetch the file itself with 'git lfs pull'", or the like for a web page;
// empty for anything else.
std::string stand_in(const ByteSource& file);

// Weights from disk: safetensors and PyTorch's .pth, never executing anything that a file says.

// Reads a checkpoint by its content (safetensors, .pth zip, .pth legacy): the tensors as stored.
// Nested `model`/`state_dict`/`teacher`/`student` and the like and the prefixes
// `module.`/`backbone.` are resolved. DataError: truncated, hostile or unknown content; a pickle
// that calls anything but what builds tensors is refused with the callable's name.
StateDict load_checkpoint(const std::filesystem::path& path);

// The same with the names as they are.
StateDict read_tensors(const std::filesystem::path& path);

// The files that --weights stands for.

struct WeightFiles {
  std::filesystem::path given;               // what was given
  std::vector<std::filesystem::path> files;  // one, or shards in the order of their names
  // Which shard each tensor lies in, as an index file states it; empty without one.
  std::map<std::string, std::filesystem::path> shard_of;
  std::filesystem::path folder;  // where a config may lie beside them
};

// Takes a file of weights, an index of shards (*.index.json), or a folder that has
// model.safetensors, open_clip_model.safetensors, pytorch_model.bin, open_clip_pytorch_model.bin,
// an index of shards, or one file of weights of any name. DataError: no or several such files, and
// an index that names a file outside its folder (a link into the blobs of the hub's cache is one
// inside), or one that is not there.
WeightFiles find_weight_files(const std::filesystem::path& path);

// All tensors, without prefixes that every name has. DataError: a tensor that
// lies in two shards, in another one than the index says, or in none.
StateDict load_weights(const WeightFiles& files);

// Of one file its SHA-256; of several the SHA-256 of the lines "SHA-256 NAME".
std::string digest_of(const WeightFiles& files);

}  // namespace coldframe::vit
