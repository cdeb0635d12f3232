#include "extract/vit/checkpoint/pth.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/files/zip_archive.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace coldframe::vit::pickle {

namespace {

constexpr std::size_t kMaxElements =
    4'000'000;  // a ViT's training checkpoint needs some ten thousand
constexpr std::size_t kMaxDimensions = 64;
constexpr std::size_t kMaxShown = 200;  // letters of a name
constexpr std::size_t kMaxKey = 256;    // torch.save's keys are decimal numbers
constexpr std::size_t kViewCharge = 4;  // the memory of a view, in elements of Heap::charge

// What a class or function that a checkpoint names is good for.
enum class Role {
  kRebuildTensor,     // (storage, offset, size, stride, requires_grad, hooks[, metadata])
  kRebuildParameter,  // (tensor, …)
  kRebuildFromType,   // (function, type, arguments, state)
  kStorageType,
  kDict,
  kInert,
};

// Remembered as objects, never built.
constexpr std::string_view kInertNames =
    "torch.float32 torch.float64 torch.float16 torch.bfloat16 torch.int64 torch.int32 "
    "torch.uint8 torch.bool torch.Size torch.device torch.Tensor "
    "torch.nn.parameter.Parameter argparse.Namespace numpy.dtype numpy.ndarray "
    "numpy.core.multiarray.scalar numpy.core.multiarray._reconstruct "
    "numpy._core.multiarray.scalar numpy._core.multiarray._reconstruct pathlib.PosixPath "
    "pathlib.WindowsPath pathlib._local.PosixPath pathlib._local.WindowsPath "
    "_codecs.encode builtins.list builtins.tuple builtins.set builtins.frozenset "
    "builtins.int builtins.float builtins.str builtins.bool builtins.bytes "
    "builtins.bytearray builtins.complex builtins.slice builtins.xrange";

using Roles = std::map<std::string, Role, std::less<>>;

const Roles& allowed() {
  static const auto* roles = [] {
    auto* names = new Roles{
        {"torch._utils._rebuild_tensor_v2", Role::kRebuildTensor},
        {"torch._utils._rebuild_parameter", Role::kRebuildParameter},
        {"torch._utils._rebuild_parameter_with_state", Role::kRebuildParameter},
        {"torch._tensor._rebuild_from_type_v2", Role::kRebuildFromType},
        {"collections.OrderedDict", Role::kDict},
        {"collections.defaultdict", Role::kDict},
        {"collections.Counter", Role::kDict},
        {"builtins.dict", Role::kDict},
    };
    for (const char* type : {"Float", "Double", "Half", "BFloat16", "Long", "Int", "Short", "Char",
                             "Byte", "Bool", "ComplexFloat", "ComplexDouble"})
      names->emplace(concat("torch.", type, "Storage"), Role::kStorageType);
    for (std::string& inert : split(kInertNames, ' '))
      names->emplace(std::move(inert), Role::kInert);
    return names;
  }();
  return *roles;
}

const Value& argument(const Value& arguments, std::size_t i, Kind kind, const std::string& caller) {
  if (i >= arguments.items.size() || !arguments.items[i]->is(kind))
    throw DataError(
        concat(caller, " has ",
               i < arguments.items.size() ? describe(arguments.items[i]->kind) : "nothing",
               " as argument ", i + 1, ", expected ", describe(kind)));
  return *arguments.items[i];
}

std::vector<std::int64_t> integers(const Value& tuple, const std::string& caller) {
  if (tuple.items.size() > kMaxDimensions)
    throw DataError(concat(caller, ": a tensor of ", tuple.items.size(), " dimensions"));
  std::vector<std::int64_t> numbers;
  for (const Value* item : tuple.items) {
    if (!item->is(Kind::kInt)) throw DataError(concat(caller, ": a size that is no int"));
    numbers.push_back(item->integer);
  }
  return numbers;
}

Value* add_view(Heap& heap, Kind kind, TensorView view) {
  heap.charge(kViewCharge + view.sizes.size());
  Value* value = heap.make(kind);
  value->view = heap.views.size();
  heap.views.push_back(std::move(view));
  return value;
}

Value* rebuild_tensor(Heap& heap, const Value& arguments, const std::string& caller) {
  TensorView view = heap.views[argument(arguments, 0, Kind::kStorage, caller).view];
  view.offset = argument(arguments, 1, Kind::kInt, caller).integer;
  view.sizes = integers(argument(arguments, 2, Kind::kTuple, caller), caller);
  view.strides = integers(argument(arguments, 3, Kind::kTuple, caller), caller);
  // The metadata says that a tensor is to be read negated or conjugated.
  if (arguments.items.size() > 6 && !arguments.items[6]->items.empty())
    throw DataError(concat(caller,
                           ": a negated or conjugated view is not supported; save a copy "
                           "of the tensor"));
  return add_view(heap, Kind::kTensor, std::move(view));
}

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

const char* describe(Kind kind) {
  static constexpr const char* kNames[] = {"None",      "an int",  "a str",   "a tuple",
                                           "a list",    "a dict",  "a class", "an object",
                                           "a storage", "a tensor"};
  return kNames[static_cast<int>(kind)];
}

Value* Heap::make(Kind kind) {
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

std::string allowed_name(std::string_view module, std::string_view name) {
  const std::string full = concat(module == "__builtin__" ? "builtins" : module, ".", name);
  if (allowed().contains(full)) return full;
  std::string shown = without_middle(printable(full), kMaxShown);
  if (module == "posix" || module == "nt")
    shown += " (os." + without_middle(printable(name), kMaxShown) + ")";
  throw DataError(concat("refused: the pickle calls ", shown,
                         ", and a checkpoint may only build tensors and plain values; if you trust "
                         "its source, load it in Python and save model.state_dict() alone"));
}

Value* call(Heap& heap, const Value& callable, const Value& arguments) {
  if (!callable.is(Kind::kGlobal))
    throw DataError(concat("refused: the pickle calls ", describe(callable.kind)));
  const std::string& name = callable.text;
  if (!arguments.is(Kind::kTuple))
    throw DataError(concat("the pickle calls ", name, " with ", describe(arguments.kind),
                           " instead of a tuple"));
  switch (allowed().at(name)) {
    case Role::kRebuildTensor:
      return rebuild_tensor(heap, arguments, name);
    case Role::kRebuildParameter: {
      Value* tensor = heap.make(Kind::kTensor);
      tensor->view = argument(arguments, 0, Kind::kTensor, name).view;
      return tensor;
    }
    case Role::kRebuildFromType: {
      const Value& function = argument(arguments, 0, Kind::kGlobal, name);
      if (allowed().at(function.text) == Role::kRebuildFromType)
        throw DataError(concat(name, " calls itself"));
      return call(heap, function, argument(arguments, 2, Kind::kTuple, name));
    }
    case Role::kStorageType:
      throw DataError(concat("refused: the pickle calls ", name));
    case Role::kDict:
      return heap.make(Kind::kDict);
    case Role::kInert:
      break;
  }
  return heap.make(Kind::kObject);
}

// An id is ("storage", type, key, device, count), and None after it in legacy files.
Value* load_storage(Heap& heap, const Value& id) {
  const std::string caller = "a persistent id";
  if (!id.is(Kind::kTuple) || id.items.empty() || !id.items[0]->is(Kind::kText) ||
      id.items[0]->text != "storage")
    throw DataError(
        "refused: the pickle refers to something else than a tensor's storage (a whole "
        "model?); save model.state_dict() alone");
  const std::string& type = argument(id, 1, Kind::kGlobal, caller).text;
  if (allowed().at(type) != Role::kStorageType)
    throw DataError(concat("a storage has the type ", type));
  if (id.items.size() > 5) argument(id, 5, Kind::kNone, caller);
  TensorView view;
  view.storage.type = type.substr(type.rfind('.') + 1);
  view.storage.key = argument(id, 2, Kind::kText, caller).text;
  if (view.storage.key.size() > kMaxKey) throw DataError("a storage whose key is overlong");
  view.storage.count = argument(id, 4, Kind::kInt, caller).integer;
  return add_view(heap, Kind::kStorage, std::move(view));
}

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

namespace coldframe::vit {

namespace {

using pickle::Value;

// A pickle beyond this is no state dict: the tensors' content lies outside it.
constexpr std::uint64_t kMaxPickle = 64u << 20;
// Tensors may share a storage or repeat its elements, but not so that a small file stands for an
// arbitrary amount of memory.
constexpr std::uint64_t kMaxExpansion = 4, kSmallFile = 1u << 20;

struct TypeOfStorage {
  std::string_view name;
  torch::ScalarType scalar;
  std::uint64_t size() const { return torch::elementSize(scalar); }
};

constexpr TypeOfStorage kTypesOfStorage[] = {
    {"FloatStorage", torch::kFloat32}, {"DoubleStorage", torch::kFloat64},
    {"HalfStorage", torch::kFloat16},  {"BFloat16Storage", torch::kBFloat16},
    {"LongStorage", torch::kInt64},    {"IntStorage", torch::kInt32},
    {"ShortStorage", torch::kInt16},   {"CharStorage", torch::kInt8},
    {"ByteStorage", torch::kUInt8},    {"BoolStorage", torch::kBool},
};

const TypeOfStorage& type_of_storage(std::string_view name) {
  for (const TypeOfStorage& type : kTypesOfStorage)
    if (type.name == name) return type;
  throw DataError(concat("a storage of type ", name, " is not supported; convert it to float"));
}

void require_little_endian(bool condition) {
  if (!condition)
    throw DataError("saved on a big-endian machine; save it again on a little-endian one");
}

// torch.save since 1.6: a zip archive of <name>/data.pkl, <name>/data/<key> for each storage,
// <name>/byteorder and <name>/version.
class PthZip : public PthFile {
 public:
  explicit PthZip(const ByteSource& file) : PthFile(file), archive_(file) {
    folder_ = find_folder();
    const std::string byteorder = folder_ + "byteorder", name = folder_ + "data.pkl";
    if (archive_.entries().contains(byteorder) && stored_entry(byteorder).size < 16)
      require_little_endian(archive_.read(byteorder) == "little");
    const std::uint64_t size = stored_entry(name).size;
    if (size > kMaxPickle)
      throw DataError(concat("its pickle has ", human_bytes(size), ", at most ",
                             human_bytes(kMaxPickle),
                             " are read; save the model's state_dict() alone"));
    const std::string bytes = archive_.read(name);
    root_ = &pickle::Unpickler(bytes, heap_).load();
  }

 private:
  void read_storage(const pickle::Storage& storage, std::span<std::byte> bytes) override {
    const std::string name = folder_ + "data/" + storage.key;
    stored_entry(name);
    archive_.read(name, bytes);
  }

  const ZipEntry& stored_entry(const std::string& name) const {
    const ZipEntry& entry = archive_.entry(name);
    if (entry.stored) return entry;
    throw DataError(concat("the zip entry '", name,
                           "' is compressed or encrypted, which torch.save never does; save the "
                           "checkpoint again with torch.save"));
  }

  std::string find_folder() const {
    for (const auto& [name, entry] : archive_.entries()) {
      const std::size_t slash = name.find('/');
      if (slash == std::string::npos || name.substr(slash + 1) != "data.pkl") continue;
      const std::string folder = name.substr(0, slash + 1);
      if (archive_.entries().contains(folder + "constants.pkl"))
        throw DataError("this is a TorchScript module, not a checkpoint; pass it as --backbone");
      return folder;
    }
    throw DataError("a zip archive without data.pkl, hence not written by torch.save");
  }

  ZipArchive archive_;
  std::string folder_;  // "archive/"
};

// torch.save before 1.6: five pickles in a row (magic number, protocol version, system information,
// the object, the storages' keys), then for each key an int64 count and the storage's elements.
class PthLegacy : public PthFile {
 public:
  explicit PthLegacy(const ByteSource& file) : PthFile(file) {
    const std::string bytes = file.read(0, std::min(file.size(), kMaxPickle));
    pickle::Unpickler unpickler(bytes, heap_);
    if (unpickler.load().text != kMagic)
      throw DataError("a pickle, but not one that torch.save wrote");
    if (unpickler.load().integer != kProtocolVersion)
      throw DataError("an unknown version of PyTorch's legacy format");
    const Value* little_endian = unpickler.load().find("little_endian");
    require_little_endian(little_endian == nullptr || little_endian->integer != 0);
    root_ = &unpickler.load();
    const Value& keys = unpickler.load();
    locate_storages(keys, unpickler.position());
  }

 private:
  // 0x1950a86a20f9469cfc6c, little-endian as the pickle holds it (torch/serialization.py).
  static constexpr std::string_view kMagic{"\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10};
  static constexpr std::int64_t kProtocolVersion = 1001;

  struct StorageRange {
    std::uint64_t offset, size;
  };

  void read_storage(const pickle::Storage& storage, std::span<std::byte> bytes) override {
    const auto found = places_.find(storage.key);
    if (found == places_.end())
      throw DataError(concat("storage ", storage.key, " is not in the file"));
    if (found->second.size != bytes.size())
      throw DataError(concat("storage ", storage.key, " has ", found->second.size,
                             " bytes where the pickle says ", bytes.size()));
    file_.read_at(found->second.offset, bytes);
  }

  void locate_storages(const Value& keys, std::uint64_t offset) {
    std::map<std::string_view, std::string_view> types;
    for (const pickle::TensorView& view : heap_.views)
      types.emplace(view.storage.key, view.storage.type);
    for (const Value* key : keys.items) {
      const auto type = types.find(key->text);
      if (!key->is(pickle::Kind::kText) || type == types.end())
        throw DataError("its list of storages names one that no tensor uses");
      const std::uint64_t count = ByteCursor(file_.read(offset, 8)).number(8);
      const std::uint64_t element = type_of_storage(type->second).size();
      offset += 8;
      if (count > (file_.size() - offset) / element)
        throw DataError(concat("truncated: storage ", key->text, " has ", count,
                               " elements, the file ends before them"));
      places_.emplace(key->text, StorageRange{offset, count * element});
      offset += count * element;
    }
  }

  std::map<std::string, StorageRange> places_;
};

struct Extent {
  std::uint64_t elements = 1;  // in the tensor
  std::uint64_t end = 0;       // one past the last element that it touches in its storage
};

// False on overflow or a negative number.
bool measure(const pickle::TensorView& view, Extent& extent) {
  if (view.sizes.size() != view.strides.size() || view.offset < 0) return false;
  std::int64_t elements = 1, last = view.offset;
  bool empty = false;
  for (std::size_t i = 0; i < view.sizes.size(); ++i) {
    const std::int64_t size = view.sizes[i], stride = view.strides[i];
    std::int64_t reach = 0;
    if (size < 0 || stride < 0) return false;
    empty = empty || size == 0;
    if (size == 0) continue;
    if (__builtin_mul_overflow(elements, size, &elements) ||
        __builtin_mul_overflow(size - 1, stride, &reach) ||
        __builtin_add_overflow(last, reach, &last))
      return false;
  }
  std::int64_t end = 0;
  if (__builtin_add_overflow(last, 1, &end)) return false;
  extent.elements = empty ? 0 : static_cast<std::uint64_t>(elements);
  extent.end = static_cast<std::uint64_t>(empty ? view.offset : end);
  return true;
}

}  // namespace

const torch::Tensor& PthFile::storage_bytes(const pickle::Storage& storage) {
  const auto found = storages_.find(storage.key);
  if (found != storages_.end()) return found->second;
  const std::uint64_t element = type_of_storage(storage.type).size();
  if (storage.count < 0 || static_cast<std::uint64_t>(storage.count) > file_.size() / element)
    throw DataError(concat("storage ", storage.key, " claims ", storage.count,
                           " elements, more than the file has bytes for"));
  const std::uint64_t size = static_cast<std::uint64_t>(storage.count) * element;
  if (__builtin_add_overflow(loaded_, size, &loaded_) || loaded_ > file_.size())
    throw DataError("the storages overlap: together they are larger than the file");
  torch::Tensor bytes = torch::empty({static_cast<std::int64_t>(size)}, torch::kUInt8);
  read_storage(storage, {static_cast<std::byte*>(bytes.data_ptr()), size});
  return storages_.emplace(storage.key, bytes).first->second;
}

torch::Tensor PthFile::build(const pickle::Value& tensor) {
  const pickle::TensorView& view = heap_.views[tensor.view];
  const TypeOfStorage& type = type_of_storage(view.storage.type);
  const torch::Tensor& bytes = storage_bytes(view.storage);
  const std::uint64_t available = static_cast<std::uint64_t>(bytes.numel()) / type.size();
  Extent extent;
  if (!measure(view, extent) || extent.end > available)
    throw DataError(
        concat("its sizes and strides reach outside its storage of ", available, " elements"));
  if (__builtin_add_overflow(built_, extent.elements, &built_) ||
      built_ > kMaxExpansion * file_.size() + kSmallFile)
    throw DataError("the tensors claim far more elements than the file holds");
  // Only 0 and 1 are booleans; a file may hold any byte.
  const torch::Tensor whole = bytes.slice(0, 0, static_cast<std::int64_t>(available * type.size()));
  const torch::Tensor flat = type.scalar == torch::kBool ? whole.ne(0) : whole.view(type.scalar);
  return flat.as_strided(view.sizes, view.strides, view.offset);
}

std::unique_ptr<PthFile> open_pth(const ByteSource& file) {
  if (file.size() < 4) return nullptr;
  const std::string start = file.read(0, 4);
  if (start == std::string_view("PK\x03\x04", 4)) return std::make_unique<PthZip>(file);
  if (start[0] == '\x80' && start[1] >= 2 && start[1] <= 5)
    return std::make_unique<PthLegacy>(file);
  return nullptr;
}

}  // namespace coldframe::vit
