#include "extract/vit/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>
#include <set>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/files/json.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pth.h"
#include "extract/vit/resolve_architecture.h"

namespace coldframe::vit {

std::string stand_in(const ByteSource& file) {
  std::array<char, 256> start{};
  const std::size_t count = file.read_some(0, std::as_writable_bytes(std::span(start)));
  const std::string text = lower(trim(std::string_view(start.data(), count)));
  if (text.starts_with("version https://git-lfs"))
    return "a Git LFS pointer, which only names the weights; fetch them with 'git lfs pull'";
  if (text.starts_with("<!doctype html") || text.starts_with("<html"))
    return "a web page, not the weights; download the file itself, not the page that shows it";
  return "";
}

namespace {

using pickle::Value;

// A training checkpoint keeps the model under one of these. A teacher is the average over its
// student's steps and what the DINO papers evaluate, hence it goes first.
constexpr std::array<std::string_view, 9> kContainers = {
    "teacher", "target_encoder", "model_ema", "state_dict", "model",
    "module",  "ema_encoder",    "encoder",   "student"};
constexpr int kMaxNesting = 8;

bool has_tensors(const Value& dict) {
  for (std::size_t i = 1; i < dict.items.size(); i += 2)
    if (dict.items[i]->is(Value::Kind::kTensor)) return true;
  return false;
}

// The innermost dict of tensors; `path` collects the keys that lead to it. nullptr if there is
// none.
const Value* find_state_dict(const Value& value, std::vector<std::string>& path) {
  if (!value.is(Value::Kind::kDict) || path.size() > kMaxNesting) return nullptr;
  for (const std::string_view name : kContainers) {
    const Value* inner = value.find(name);
    if (inner == nullptr || !inner->is(Value::Kind::kDict)) continue;
    path.emplace_back(name);
    if (const Value* found = find_state_dict(*inner, path)) return found;
    path.pop_back();
  }
  return has_tensors(value) ? &value : nullptr;
}

StateDict read_pth(PthFile& file) {
  std::vector<std::string> path;
  const Value* dict = find_state_dict(file.root(), path);
  if (dict == nullptr)
    throw DataError(concat("it holds ", describe(file.root().kind),
                           " without a dict of tensors, neither at its top nor under ",
                           "teacher, state_dict, model or student"));
  if (!path.empty()) log_info(concat("weights: taken from '", join(path, "."), "' of the file"));
  StateDict tensors;
  for (std::size_t i = 0; i + 1 < dict->items.size(); i += 2) {
    const Value &name = *dict->items[i], &value = *dict->items[i + 1];
    if (!value.is(Value::Kind::kTensor)) continue;
    if (!name.is(Value::Kind::kText) || !is_valid_utf8(name.text))
      throw DataError(concat("a tensor's name is ", describe(name.kind), ", expected text"));
    tensors[name.text] =
        in_context(concat("tensor '", name.text, "'"), [&] { return file.build(value); });
  }
  return tensors;
}

StateDict read_any_pth(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) throw DataError("there is no such file; check the path");
  const InputFile file(path, refuse_unnamed);
  if (const auto pth = open_pth(file)) return read_pth(*pth);
  if (file.size() == 0) throw DataError("the file is empty");
  if (const std::string what = stand_in(file); !what.empty()) throw DataError(what);
  throw DataError("neither a safetensors file nor one written by torch.save");
}

}  // namespace

StateDict read_tensors(const std::filesystem::path& path) {
  if (std::filesystem::is_regular_file(path) && is_safetensors(path))
    return read_safetensors(path).tensors;
  return in_context(concat("weights '", path.string(), "'"), [&] { return read_any_pth(path); });
}

StateDict load_checkpoint(const std::filesystem::path& path) {
  return strip_prefixes(read_tensors(path));
}

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
                           "file itself next to the index"));
}

// A shard lies next to its index, under a plain name.
fs::path shard_path(const fs::path& index, const std::string& name) {
  if (name.empty() || name == "." || name == ".." || name.find_first_of("/\\") != std::string::npos)
    throw DataError(concat("the shard '", name,
                           "' lies outside the index's folder; expected the "
                           "plain name of a file next to it"));
  const fs::path path = index.parent_path() / name;
  if (!fs::is_regular_file(status_of(path)))
    throw DataError(concat("the shard '", name, "' is not next to the index; download it too"));
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

std::string part_taken(const WeightFiles& weights) {
  const InputFile file(weights.files.front(), refuse_unnamed);
  const auto pth = is_safetensors(weights.files.front()) ? nullptr : open_pth(file);
  std::vector<std::string> path;
  if (pth) find_state_dict(pth->root(), path);
  return join(path, ".");
}

std::string digest_of(const WeightFiles& weights) {
  if (weights.files.size() == 1) return sha256_file(weights.files.front());
  std::string lines;
  for (const fs::path& file : weights.files)
    lines += concat(sha256_file(file), " ", file.filename().string(), "\n");
  return sha256_hex(lines);
}

}  // namespace coldframe::vit
