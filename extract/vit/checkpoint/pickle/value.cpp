#include "extract/vit/checkpoint/pickle/value.h"

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit::pickle {

namespace {

// A ViT's training checkpoint needs some ten thousand.
constexpr std::size_t kMaxElements = 4'000'000;

}  // namespace

const Value* Value::find(std::string_view key) const {
  if (kind != Kind::kDict) return nullptr;
  // Searches from the end: in a dict the last assignment holds.
  for (std::size_t i = items.size(); i >= 2; i -= 2) {
    const Value& name = *items[i - 2];
    if (name.is(Kind::kText) && name.text == key) return items[i - 1];
  }
  return nullptr;
}

const char* describe(Value::Kind kind) {
  static constexpr const char* kNames[] = {
      "None",   "a bool", "an int", "an int",  "a float",   "a str",     "bytes",   "a tuple",
      "a list", "a set",  "a dict", "a class", "an object", "a storage", "a tensor"};
  return kNames[static_cast<int>(kind)];
}

Value* Heap::make(Value::Kind kind) {
  charge(1);
  values_.emplace_back().kind = kind;
  return &values_.back();
}

void Heap::charge(std::size_t n) {
  charged_ += n;
  if (charged_ > kMaxElements)
    throw DataError(concat("the pickle builds more than ", kMaxElements,
                           " objects; save the model's state_dict() alone"));
}

}  // namespace coldframe::vit::pickle
