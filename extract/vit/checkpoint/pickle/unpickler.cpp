#include "extract/vit/checkpoint/pickle/unpickler.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pickle/rebuild.h"

namespace coldframe::vit::pickle {

const Value& Unpickler::load() {
  stack_.clear();
  marks_.clear();
  memo_.clear();
  for (;;) {
    const char op = in_.text(1)[0];
    if (op == '.') return *pop();  // STOP
    if (op == '\x95') {            // FRAME: only a hint for reading ahead
      in_.take(8);
      continue;
    }
    if (op == '\x80') {  // PROTO
      const std::uint64_t protocol = in_.number(1);
      if (protocol > 5) throw DataError(concat("a pickle of protocol ", protocol, ", not 0 to 5"));
      continue;
    }
    if (!number(op) && !text(op) && !sequence(op) && !dict(op) && !memo(op) && !stack(op) &&
        !object(op))
      throw DataError(concat("not a checkpoint's pickle: opcode ",
                             static_cast<int>(static_cast<unsigned char>(op)), " at byte ",
                             in_.position() - 1));
  }
}

bool Unpickler::number(char op) {
  switch (op) {
    case 'N':  // NONE
      return push(Kind::kNone);
    case '\x88':  // NEWTRUE
      return push(Kind::kBool, 1);
    case '\x89':  // NEWFALSE
      return push(Kind::kBool, 0);
    case 'J':  // BININT
      return push(Kind::kInt, static_cast<std::int32_t>(in_.number(4)));
    case 'K':  // BININT1
      return push(Kind::kInt, static_cast<std::int64_t>(in_.number(1)));
    case 'M':  // BININT2
      return push(Kind::kInt, static_cast<std::int64_t>(in_.number(2)));
    case 'G':  // BINFLOAT
      return push_real(std::bit_cast<double>(in_.number(8, std::endian::big)));
    case '\x8a':  // LONG1
      return push_long(in_.text(in_.number(1)));
    case '\x8b':  // LONG4
      return push_long(in_.text(in_.number(4)));
    case 'I':  // INT
    case 'L':  // LONG
    case 'F':  // FLOAT
      return push_line(op);
    default:
      return false;
  }
}

bool Unpickler::text(char op) {
  switch (op) {
    case 'X':  // BINUNICODE
    case 'T':  // BINSTRING: Python 2's str, as old files name their tensors
      return push_text(Kind::kText, in_.number(4));
    case '\x8c':  // SHORT_BINUNICODE
    case 'U':     // SHORT_BINSTRING
      return push_text(Kind::kText, in_.number(1));
    case '\x8d':  // BINUNICODE8
      return push_text(Kind::kText, in_.number(8));
    case 'C':  // SHORT_BINBYTES
      return push_text(Kind::kBytes, in_.number(1));
    case 'B':  // BINBYTES
      return push_text(Kind::kBytes, in_.number(4));
    case '\x8e':  // BINBYTES8
    case '\x96':  // BYTEARRAY8
      return push_text(Kind::kBytes, in_.number(8));
    case 'V':  // UNICODE
    case 'S':  // STRING
      return push_line(op);
    default:
      return false;
  }
}

bool Unpickler::sequence(char op) {
  switch (op) {
    case ')':  // EMPTY_TUPLE
      return push(Kind::kTuple);
    case ']':  // EMPTY_LIST
      return push(Kind::kList);
    case '\x8f':  // EMPTY_SET
      return push(Kind::kSet);
    case 't':  // TUPLE
      return collect_from(pop_mark(), Kind::kTuple);
    case 'l':  // LIST
      return collect_from(pop_mark(), Kind::kList);
    case '\x91':  // FROZENSET
      return collect_from(pop_mark(), Kind::kSet);
    case 'a':  // APPEND
      return append_from(last(1), Kind::kList);
    case 'e':  // APPENDS
      return append_from(pop_mark(), Kind::kList);
    case '\x90':  // ADDITEMS
      return append_from(pop_mark(), Kind::kSet);
    case '\x85':  // TUPLE1
      return collect_from(last(1), Kind::kTuple);
    case '\x86':  // TUPLE2
      return collect_from(last(2), Kind::kTuple);
    case '\x87':  // TUPLE3
      return collect_from(last(3), Kind::kTuple);
    default:
      return false;
  }
}

bool Unpickler::dict(char op) {
  switch (op) {
    case '}':  // EMPTY_DICT
      return push(Kind::kDict);
    case 'd':  // DICT
      return collect_from(pop_mark(), Kind::kDict);
    case 'u':  // SETITEMS
      return append_from(pop_mark(), Kind::kDict);
    case 's':  // SETITEM
      return append_from(last(2), Kind::kDict);
    default:
      return false;
  }
}

bool Unpickler::memo(char op) {
  switch (op) {
    case 'q':  // BINPUT
      return remember(in_.number(1));
    case 'r':  // LONG_BINPUT
      return remember(in_.number(4));
    case '\x94':  // MEMOIZE
      return remember(memo_.size());
    case 'h':  // BINGET
      return recall(in_.number(1));
    case 'j':  // LONG_BINGET
      return recall(in_.number(4));
    case 'p':    // PUT
    case 'g': {  // GET
      std::int64_t index = 0;
      if (!parse_int(take_line(), index) || index < 0) throw DataError("a malformed memo index");
      const auto place = static_cast<std::uint64_t>(index);
      return op == 'p' ? remember(place) : recall(place);
    }
    default:
      return false;
  }
}

bool Unpickler::stack(char op) {
  switch (op) {
    case '(':  // MARK
      heap_.charge(1);
      marks_.push_back(stack_.size());
      return true;
    case '0':  // POP
      pop();
      return true;
    case '1':  // POP_MARK
      stack_.resize(pop_mark());
      return true;
    case '2':  // DUP
      return push_again(stack_[last(1)]);
    default:
      return false;
  }
}

bool Unpickler::object(char op) {
  switch (op) {
    case 'c': {  // GLOBAL
      const std::string module(take_line()), name(take_line());
      return push_global(module, name);
    }
    case 'i': {  // INST: GLOBAL and REDUCE in one
      const std::string module(take_line()), name(take_line());
      collect_from(pop_mark(), Kind::kTuple);
      const Value* arguments = pop();
      push_global(module, name);
      return push_call(*pop(), *arguments);
    }
    case '\x93': {  // STACK_GLOBAL
      const Value *name = pop(), *module = pop();
      if (!name->is(Kind::kText) || !module->is(Kind::kText))
        throw DataError("a class whose name is not text");
      return push_global(module->text, name->text);
    }
    case '\x92':  // NEWOBJ_EX: class(*arguments, **keywords)
      pop();
      [[fallthrough]];
    case 'R':       // REDUCE: callable(*arguments)
    case '\x81': {  // NEWOBJ: class(*arguments)
      const Value *arguments = pop(), *callable = pop();
      return push_call(*callable, *arguments);
    }
    case 'b':  // BUILD: an object's attributes, which nothing here reads
      pop();
      return last(1) < stack_.size();
    case 'Q':  // BINPERSID
      stack_.push_back(load_persistent(heap_, *pop()));
      return true;
    default:
      return false;
  }
}

}  // namespace coldframe::vit::pickle
