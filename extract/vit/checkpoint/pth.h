// What a checkpoint's pickle may build: plain values, containers, inert objects, and descriptions
// of tensors and their storages. Nothing in it is ever executed.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/files/bytes.h"
#include "common/torch/tensor.h"

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

// Reads the pickles of torch.save: protocol 2, by the opcodes that PyTorch's own restricted loader
// knows (torch/_weights_only_unpickler.py).

struct RefuseAsCutPickle {
  [[noreturn]] void operator()(const BeyondEnd& wanted) const;
};

class Unpickler {
 public:
  Unpickler(std::string_view bytes, Heap& heap) : in_(bytes), heap_(heap) {}

  // Reads one pickle, up to and including its STOP. DataError says what is wrong with it. A second
  // call reads the pickle after it, as legacy checkpoints have several in a row.
  const Value& load();
  std::uint64_t position() const { return in_.position(); }  // bytes consumed so far

 private:
  // Each handles the opcodes of one kind and says whether `op` was one of them.
  bool plain_value(char op);
  bool container(char op);
  bool memo(char op);
  bool object(char op);

  // The actions below return true: the opcode has been dealt with.
  bool push(Kind kind, std::int64_t integer = 0);
  bool push_text(std::uint64_t length);
  bool push_long(std::string_view bytes);
  bool push_again(Value* value);
  bool collect_from(std::size_t first, Kind kind);  // the stack's end into a new value
  bool append_from(std::size_t first, Kind kind);   // the stack's end into the value below
  bool remember(std::uint64_t index);
  bool recall(std::uint64_t index);

  Value* pop();
  std::size_t pop_mark();
  std::size_t last(std::size_t count) const;  // where the last `count` items above the mark start
  std::string_view take_line();               // up to '\n', which is consumed as well

  ByteCursor<RefuseAsCutPickle> in_;
  Heap& heap_;
  std::vector<Value*> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack, none larger than its present one
  std::unordered_map<std::uint64_t, Value*> memo_;
};

}  // namespace coldframe::vit::pickle

// Tensors of a .pth file in either of PyTorch's two formats.

namespace coldframe::vit {

class PthFile {
 public:
  virtual ~PthFile() = default;

  const pickle::Value& root() const { return *root_; }
  // The tensor as torch.load gives it: same type, sizes and strides, storages shared. DataError for
  // one that reaches outside its storage.
  torch::Tensor build(const pickle::Value& tensor);

 protected:
  explicit PthFile(const ByteSource& file) : file_(file) {}

  const ByteSource& file_;
  pickle::Heap heap_;
  const pickle::Value* root_ = nullptr;

 private:
  // Fills `bytes` with a whole storage, which must have as many; DataError otherwise.
  virtual void read_storage(const pickle::Storage& storage, std::span<std::byte> bytes) = 0;
  const torch::Tensor& storage_bytes(const pickle::Storage& storage);

  std::map<std::string, torch::Tensor> storages_;  // by key, as bytes
  std::uint64_t loaded_ = 0;                       // bytes of the storages read
  std::uint64_t built_ = 0;                        // elements of all tensors, were none shared
};

// Null for a file of another kind. The file must outlive what is returned.
std::unique_ptr<PthFile> open_pth(const ByteSource& file);

}  // namespace coldframe::vit
