#include "extract/vit/checkpoint/weight_files.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/files/fingerprint.h"
#include "common/files/json.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/checkpoint.h"
#include "extract/vit/checkpoint/state_dict_names.h"

namespace coldframe::vit {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIndexEnd = ".index.json";
// The names that the hub gives weights, the first that is there counts.
constexpr std::array kHubNames = {
    "model.safetensors", "model.safetensors.index.json", "open_clip_model.safetensors",
    "pytorch_model.bin", "pytorch_model.bin.index.json", "open_clip_pytorch_model.bin"};
constexpr std::array kEnds = {".safetensors", ".pth", ".pt", ".bin", ".ckpt"};

bool is_index(const fs::path& path) {
  return path.filename().string().ends_with(kIndexEnd);
}

// The hub's cache keeps snapshots/REVISION/NAME as links to ../../blobs/DIGEST.
void refuse_link_elsewhere(const fs::path& shard) {
  const fs::path folder = fs::canonical(shard.parent_path());
  const fs::path target = fs::canonical(shard).parent_path();
  if (target != folder && target != folder.parent_path().parent_path() / "blobs")
    throw DataError(concat("the shard '", shard.filename().string(), "' is a link to a file in '",
                           target.string(),
                           "', which lies outside the index's folder; put the "
                           "file itself beside the index"));
}

// A shard lies beside its index, under a plain name.
fs::path shard_path(const fs::path& index, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos)
    throw DataError(concat("the shard '", name,
                           "' lies outside the index's folder; expected the "
                           "plain name of a file beside it"));
  const fs::path path = index.parent_path() / name;
  if (!fs::is_regular_file(status_of(path)))
    throw DataError(concat("the shard '", name, "' is not beside the index; download it too"));
  refuse_link_elsewhere(path);
  return path;
}

WeightFiles read_index(const fs::path& path) {
  WeightFiles found;
  const Json index = read_json_file(path);
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object())
    throw DataError("it has no object 'weight_map' that says which shard each tensor lies in");
  std::set<fs::path> shards;
  for (const auto& [tensor, shard] : index["weight_map"].items()) {
    if (!shard.is_string())
      throw DataError(concat("'weight_map' gives tensor '", tensor, "' no file name"));
    found.shard_of[tensor] = shard_path(path, shard.get<std::string>());
    shards.insert(found.shard_of[tensor]);
  }
  if (shards.empty()) throw DataError("'weight_map' names no tensor");
  found.files.assign(shards.begin(), shards.end());
  return found;
}

// The one file of weights in a folder of the hub, or its index.
fs::path weights_in(const fs::path& folder) {
  for (const char* name : kHubNames)
    if (fs::is_regular_file(status_of(folder / name))) return folder / name;
  std::vector<std::string> others;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (entry.is_regular_file() &&
        std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); }))
      others.push_back(name);
  }
  if (others.size() == 1) return folder / others.front();
  std::ranges::sort(others);
  throw DataError(others.empty()
                      ? std::string("the folder holds no weights; expected model.safetensors, "
                                    "pytorch_model.bin or the like")
                      : concat("the folder holds several files of weights (", join(others, ", "),
                               "); give one of them"));
}

StateDict read_shards(const WeightFiles& weights) {
  StateDict all;
  for (const fs::path& shard : weights.files)
    for (auto& [name, tensor] : read_tensors(shard)) {
      const auto stated = weights.shard_of.find(name);
      if (stated == weights.shard_of.end() || stated->second != shard)
        throw DataError(
            concat("the shard '", shard.filename().string(), "' holds tensor '", name,
                   "', which the index ",
                   stated == weights.shard_of.end()
                       ? std::string("does not name")
                       : concat("places in '", stated->second.filename().string(), "'")));
      all.emplace(name, std::move(tensor));
    }
  for (const auto& [name, shard] : weights.shard_of)
    if (!all.contains(name))
      throw DataError(concat("the index places tensor '", name, "' in '", shard.filename().string(),
                             "', which does not hold it"));
  return all;
}

}  // namespace

WeightFiles find_weight_files(const fs::path& path) {
  return in_context(concat("weights '", path.string(), "'"), [&] {
    const fs::path file = fs::is_directory(status_of(path)) ? weights_in(path) : path;
    WeightFiles found = is_index(file) ? read_index(file) : WeightFiles{};
    if (found.files.empty()) found.files = {file};
    found.given = path;
    found.folder = file.parent_path();
    return found;
  });
}

StateDict load_weights(const WeightFiles& weights) {
  if (weights.shard_of.empty()) return load_checkpoint(weights.files.front());
  return in_context(concat("weights '", weights.given.string(), "'"),
                    [&] { return strip_prefixes(read_shards(weights)); });
}

std::string digest_of(const WeightFiles& weights) {
  if (weights.files.size() == 1) return sha256_file(weights.files.front());
  std::string lines;
  for (const fs::path& file : weights.files)
    lines += concat(sha256_file(file), " ", file.filename().string(), "\n");
  return sha256_hex(lines);
}

}  // namespace coldframe::vit
