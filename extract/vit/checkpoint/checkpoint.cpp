#include "extract/vit/checkpoint/checkpoint.h"

#include <algorithm>
#include <array>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/cli/log.h"
#include "common/files/file.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pth.h"
#include "extract/vit/checkpoint/stand_in.h"
#include "extract/vit/checkpoint/state_dict_names.h"

namespace coldframe::vit {

namespace {

using pickle::Value;

// A training checkpoint keeps the model under one of these. A teacher is the average over its
// student's steps and what the DINO papers evaluate, hence it goes first.
constexpr std::array<std::string_view, 8> kContainers = {
    "teacher", "target_encoder", "model_ema", "state_dict",
    "model",   "module",         "encoder",   "student"};
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

}  // namespace coldframe::vit
