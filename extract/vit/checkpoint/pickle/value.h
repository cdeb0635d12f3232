// Holds all that a pickle may contain here: plain values, containers, inert objects, and
// descriptions of tensors and their storages. Nothing in it is ever executed.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/torch/tensor.h"

namespace coldframe::vit::pickle {

// A run of elements in the file, or a part of one (legacy files know views of storages).
struct Storage {
  std::string key;          // the name under which the file holds the bytes
  std::string type;         // "FloatStorage"
  std::int64_t count = 0;   // elements of the whole storage
  std::int64_t first = 0;   // where the view starts; 0 when it is the storage itself
  std::int64_t length = 0;  // elements in the view
};

struct TensorView {
  Storage storage;
  std::string dtype;  // "" = that of the storage; "uint16" when the storage is untyped
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
};

struct Value {
  enum class Kind {
    kNone,
    kBool,
    kInt,
    kBigInt,  // text: the little-endian two's complement bytes
    kFloat,
    kText,
    kBytes,
    kTuple,
    kList,
    kSet,
    kDict,    // items: key, value, key, value, …
    kGlobal,  // text: "module.name", one of those that globals.h allows
    kObject,  // an instance of a global, its content ignored
    kStorage,
    kTensor,
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;  // kInt, kBool
  double real = 0;           // kFloat
  std::string text;
  std::vector<Value*> items;
  std::optional<std::size_t> view;  // kStorage, kTensor: its index in Heap::views

  bool is(Kind other) const { return kind == other; }
  // The value of a dict's key, nullptr if there is none.
  const Value* find(std::string_view key) const;
};

using Kind = Value::Kind;
const char* describe(Value::Kind kind);  // "a dict", for messages

// Owns every value of one pickle, so that neither cycles nor deep nesting need care.
class Heap {
 public:
  Value* make(Value::Kind kind);
  // Counts `n` more elements towards the limit: memory stays in proportion to the file although a
  // pickle can copy one list many times over.
  void charge(std::size_t n);

  std::deque<TensorView> views;

 private:
  std::deque<Value> values_;
  std::size_t charged_ = 0;
};

}  // namespace coldframe::vit::pickle
