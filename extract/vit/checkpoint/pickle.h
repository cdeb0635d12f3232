// Reads the pickles of torch.save: protocol 2, by the opcodes that PyTorch's own restricted loader
// knows (torch/_weights_only_unpickler.py).
#pragma once

#include <string_view>
#include <unordered_map>
#include <vector>

#include "common/files/bytes/byte_cursor.h"
#include "extract/vit/checkpoint/pickle_objects.h"

namespace coldframe::vit::pickle {

struct RefuseAsCutPickle {
  [[noreturn]] void operator()(const BeyondEnd& wanted) const;
};

class Unpickler {
 public:
  Unpickler(std::string_view bytes, Heap& heap) : in_(bytes), heap_(heap) {}

  // Reads one pickle, up to and including its STOP. DataError says what is wrong with it. A second
  // call reads the pickle behind it, as legacy checkpoints have several in a row.
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
