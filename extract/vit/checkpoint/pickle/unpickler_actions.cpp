// Carries out the opcodes: puts values onto the stack and takes them off it.
#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pickle/globals.h"
#include "extract/vit/checkpoint/pickle/rebuild.h"
#include "extract/vit/checkpoint/pickle/unpickler.h"

namespace coldframe::vit::pickle {

void RefuseAsCutPickle::operator()(const BeyondEnd& wanted) const {
  throw DataError(concat("truncated: the pickle ends at byte ", wanted.end, " where ", wanted.count,
                         " bytes are needed at byte ", wanted.at));
}

std::string_view Unpickler::take_line() {
  const std::string_view rest = in_.text_at(in_.position(), in_.left());
  const std::size_t length = rest.find('\n');
  if (length == std::string_view::npos) throw DataError("truncated: the pickle ends inside a line");
  in_.take(length + 1);
  return rest.substr(0, length);
}

Value* Unpickler::make(Kind kind) {
  stack_.push_back(heap_.make(kind));
  return stack_.back();
}

bool Unpickler::push(Kind kind, std::int64_t integer) {
  make(kind)->integer = integer;
  return true;
}

bool Unpickler::push_real(double real) {
  make(Kind::kFloat)->real = real;
  return true;
}

bool Unpickler::push_text(Kind kind, std::uint64_t length) {
  const std::string_view content = in_.text(length);
  make(kind)->text = content;
  return true;
}

// The text opcodes of protocols 0 and 1.
bool Unpickler::push_line(char op) {
  std::string line(take_line());
  if (op == 'V') {
    make(Kind::kText)->text = std::move(line);
    return true;
  }
  if (op == 'S' && line.size() >= 2) {
    make(Kind::kText)->text = line.substr(1, line.size() - 2);
    return true;
  }
  double real = 0;
  if (op == 'F' && parse_double(line, real)) return push_real(real);
  if (op == 'I' && (line == "00" || line == "01")) return push(Kind::kBool, line == "01");
  if (op == 'L' && !line.empty() && line.back() == 'L') line.pop_back();
  std::int64_t integer = 0;
  if (op != 'S' && op != 'F' && parse_int(line, integer)) return push(Kind::kInt, integer);
  throw DataError(concat("the pickle has a malformed value at byte ", in_.position()));
}

bool Unpickler::push_long(std::string_view bytes) {
  if (bytes.size() > 8) {
    make(Kind::kBigInt)->text = bytes;
    return true;
  }
  const bool negative = !bytes.empty() && static_cast<signed char>(bytes.back()) < 0;
  std::uint64_t value = negative ? ~std::uint64_t{0} : 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return push(Kind::kInt, static_cast<std::int64_t>(value));
}

bool Unpickler::push_global(const std::string& module, const std::string& name) {
  make(Kind::kGlobal)->text = allow_global(module, name).name;
  return true;
}

bool Unpickler::push_call(const Value& callable, const Value& arguments) {
  stack_.push_back(call(heap_, callable, arguments));
  return true;
}

bool Unpickler::push_again(Value* value) {
  heap_.charge(1);
  stack_.push_back(value);
  return true;
}

bool Unpickler::collect_from(std::size_t first, Kind kind) {
  Value* value = heap_.make(kind);
  value->items.assign(stack_.begin() + static_cast<std::ptrdiff_t>(first), stack_.end());
  if (kind == Kind::kDict && value->items.size() % 2 != 0)
    throw DataError("a dict with a key but no value");
  stack_.resize(first);
  stack_.push_back(value);
  return true;
}

bool Unpickler::append_from(std::size_t first, Kind kind) {
  if (first == 0) throw DataError("the pickle adds items to nothing");
  Value* target = stack_[first - 1];
  // An inert object (a set, a bytearray, …) takes its items and forgets them.
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

}  // namespace coldframe::vit::pickle
