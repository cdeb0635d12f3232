#include "extract/vit/checkpoint/pickle.h"

#include "common/cli/error.h"
#include "common/text/text.h"

namespace coldframe::vit::pickle {

void RefuseAsCutPickle::operator()(const BeyondEnd& wanted) const {
  throw DataError(concat("truncated: the pickle ends at byte ", wanted.end, " where ", wanted.count,
                         " bytes are needed at byte ", wanted.at));
}

const Value& Unpickler::load() {
  stack_.clear();
  marks_.clear();
  memo_.clear();
  for (;;) {
    const char op = in_.text(1)[0];
    if (op == '.') return *pop();  // STOP
    if (op == '\x80') {            // PROTO
      if (const std::uint64_t protocol = in_.number(1); protocol != 2)
        throw DataError(
            concat("a pickle of protocol ", protocol,
                   ", expected 2, as torch.save writes by itself; load it in Python and "
                   "save it again without pickle_protocol"));
    } else if (!plain_value(op) && !container(op) && !memo(op) && !object(op)) {
      throw DataError(concat("not a checkpoint's pickle: opcode ",
                             static_cast<int>(static_cast<unsigned char>(op)), " at byte ",
                             in_.position() - 1));
    }
  }
}

bool Unpickler::plain_value(char op) {
  switch (op) {
    case 'N':  // NONE
      return push(Kind::kNone);
    case '\x88':  // NEWTRUE
      return push(Kind::kInt, 1);
    case '\x89':  // NEWFALSE
      return push(Kind::kInt, 0);
    case 'J':  // BININT
      return push(Kind::kInt, static_cast<std::int32_t>(in_.number(4)));
    case 'K':  // BININT1
      return push(Kind::kInt, static_cast<std::int64_t>(in_.number(1)));
    case 'M':  // BININT2
      return push(Kind::kInt, static_cast<std::int64_t>(in_.number(2)));
    case '\x8a':  // LONG1
      return push_long(in_.text(in_.number(1)));
    case 'G':  // BINFLOAT
      in_.take(8);
      return push(Kind::kObject);
    case 'X':  // BINUNICODE
      return push_text(in_.number(4));
    case 'U':  // SHORT_BINSTRING: Python 2's str
      return push_text(in_.number(1));
    default:
      return false;
  }
}

bool Unpickler::container(char op) {
  switch (op) {
    case ')':  // EMPTY_TUPLE
      return push(Kind::kTuple);
    case ']':  // EMPTY_LIST
      return push(Kind::kList);
    case '}':  // EMPTY_DICT
      return push(Kind::kDict);
    case '(':  // MARK
      heap_.charge(1);
      marks_.push_back(stack_.size());
      return true;
    case 't':  // TUPLE
      return collect_from(pop_mark(), Kind::kTuple);
    case '\x85':  // TUPLE1
      return collect_from(last(1), Kind::kTuple);
    case '\x86':  // TUPLE2
      return collect_from(last(2), Kind::kTuple);
    case '\x87':  // TUPLE3
      return collect_from(last(3), Kind::kTuple);
    case 'a':  // APPEND
      return append_from(last(1), Kind::kList);
    case 'e':  // APPENDS
      return append_from(pop_mark(), Kind::kList);
    case 's':  // SETITEM
      return append_from(last(2), Kind::kDict);
    case 'u':  // SETITEMS
      return append_from(pop_mark(), Kind::kDict);
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
    case 'h':  // BINGET
      return recall(in_.number(1));
    case 'j':  // LONG_BINGET
      return recall(in_.number(4));
    default:
      return false;
  }
}

bool Unpickler::object(char op) {
  switch (op) {
    case 'c': {  // GLOBAL
      const std::string_view module = take_line(), name = take_line();
      std::string allowed = allowed_name(module, name);
      push(Kind::kGlobal);
      stack_.back()->text = std::move(allowed);
      return true;
    }
    case 'R':       // REDUCE: callable(*arguments)
    case '\x81': {  // NEWOBJ: class(*arguments)
      const Value *arguments = pop(), *callable = pop();
      stack_.push_back(call(heap_, *callable, *arguments));
      return true;
    }
    case 'b':  // BUILD: an object's attributes, which nothing here reads
      pop();
      return last(1) < stack_.size();
    case 'Q':  // BINPERSID
      stack_.push_back(load_storage(heap_, *pop()));
      return true;
    default:
      return false;
  }
}

bool Unpickler::push(Kind kind, std::int64_t integer) {
  stack_.push_back(heap_.make(kind));
  stack_.back()->integer = integer;
  return true;
}

bool Unpickler::push_text(std::uint64_t length) {
  const std::string_view content = in_.text(length);
  push(Kind::kText);
  stack_.back()->text = content;
  return true;
}

// Little-endian two's complement.
bool Unpickler::push_long(std::string_view bytes) {
  if (bytes.size() > 8) {
    push(Kind::kObject);
    stack_.back()->text = bytes;
    return true;
  }
  const bool negative = !bytes.empty() && static_cast<signed char>(bytes.back()) < 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return push(Kind::kInt, static_cast<std::int64_t>(value));
}

bool Unpickler::push_again(Value* value) {
  heap_.charge(1);
  stack_.push_back(value);
  return true;
}

bool Unpickler::collect_from(std::size_t first, Kind kind) {
  Value* value = heap_.make(kind);
  value->items.assign(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
  stack_.resize(first);
  stack_.push_back(value);
  return true;
}

bool Unpickler::append_from(std::size_t first, Kind kind) {
  if (first == 0) throw DataError("the pickle adds items to nothing");
  Value* target = stack_[first - 1];
  // An inert object (a set, a subclass of list, …) takes its items and forgets them.
  if (!target->is(kind) && !target->is(Kind::kObject))
    throw DataError(
        concat("the pickle adds items to ", describe(target->kind), ", expected ", describe(kind)));
  if (kind == Kind::kDict && (stack_.size() - first) % 2 != 0)
    throw DataError("a dict with a key but no value");
  if (target->is(kind))
    target->items.insert(target->items.end(), stack_.begin() + static_cast<std::ptrdiff_t>(first),
                         stack_.end());
  stack_.resize(first);
  return true;
}

bool Unpickler::remember(std::uint64_t index) {
  memo_[index] = stack_[last(1)];
  return true;
}

bool Unpickler::recall(std::uint64_t index) {
  const auto found = memo_.find(index);
  if (found == memo_.end())
    throw DataError(concat("the pickle recalls item ", index, ", which it never stored"));
  return push_again(found->second);
}

std::size_t Unpickler::last(std::size_t count) const {
  const std::size_t floor = marks_.empty() ? 0 : marks_.back();
  if (stack_.size() - floor < count) throw DataError("the pickle takes from an empty stack");
  return stack_.size() - count;
}

Value* Unpickler::pop() {
  Value* value = stack_[last(1)];
  stack_.pop_back();
  return value;
}

std::size_t Unpickler::pop_mark() {
  if (marks_.empty()) throw DataError("the pickle closes a mark that it never set");
  const std::size_t mark = marks_.back();
  marks_.pop_back();
  return mark;
}

std::string_view Unpickler::take_line() {
  const std::string_view rest = in_.text_at(in_.position(), in_.left());
  const std::size_t length = rest.find('\n');
  if (length == std::string_view::npos) throw DataError("truncated: the pickle ends inside a line");
  in_.take(length + 1);
  return rest.substr(0, length);
}

}  // namespace coldframe::vit::pickle
