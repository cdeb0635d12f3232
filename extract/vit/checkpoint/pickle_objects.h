// What a checkpoint's pickle may build: plain values, containers, inert objects, and descriptions
// of tensors and their storages. Nothing in it is ever executed.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe::vit::pickle {

// A run of elements in the file.
struct Storage {
  std::string key;         // the name under which the file holds the bytes
  std::string type;        // "FloatStorage"
  std::int64_t count = 0;  // of elements
};

struct TensorView {
  Storage storage;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
};

struct Value {
  enum class Kind {
    kNone,
    kInt,  // a bool is one, too
    kText,
    kTuple,
    kList,
    kDict,    // items: key, value, key, value, …
    kGlobal,  // text: "module.name" of an allowed class or function
    kObject,  // anything else; `text` holds the bytes of an int of more than 64 bits
    kStorage,
    kTensor,
  };
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  std::string text;
  std::vector<Value*> items;
  std::size_t view = 0;  // kStorage, kTensor: its index in Heap::views

  bool is(Kind other) const { return kind == other; }
  // The value of a dict's key, nullptr if there is none.
  const Value* find(std::string_view key) const;
};

using Kind = Value::Kind;
const char* describe(Kind kind);  // "a dict", for messages

// Owns every value of one pickle, so that neither cycles nor deep nesting need care.
class Heap {
 public:
  Value* make(Kind kind);
  // Counts `n` more elements towards the limit: memory stays in proportion to the file although a
  // pickle can store one value many times over.
  void charge(std::size_t n);

  std::deque<TensorView> views;

 private:
  std::deque<Value> values_;
  std::size_t charged_ = 0;
};

// "module.name" of a class or function that a checkpoint may name, as Python 3 spells it. DataError
// for any other: "refused: the pickle calls posix.system (os.system) …".
std::string allowed_name(std::string_view module, std::string_view name);

// callable(*arguments), where `callable` is an allowed class or function.
Value* call(Heap& heap, const Value& callable, const Value& arguments);

// The storage that a persistent id stands for.
Value* load_storage(Heap& heap, const Value& id);

}  // namespace coldframe::vit::pickle
