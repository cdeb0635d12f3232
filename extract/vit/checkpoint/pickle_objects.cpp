#include "extract/vit/checkpoint/pickle_objects.h"

#include <map>
#include <string_view>
#include <utility>

#include "common/cli/error.h"
#include "common/text/printable.h"
#include "common/text/table.h"
#include "common/text/text.h"

namespace coldframe::vit::pickle {
namespace {

constexpr std::size_t kMaxElements =
    4'000'000;  // a ViT's training checkpoint needs some ten thousand
constexpr std::size_t kMaxDimensions = 64;
constexpr std::size_t kLongestShown = 200;  // letters of a name
constexpr std::size_t kMaxKey = 256;        // torch.save's keys are decimal numbers
constexpr std::size_t kViewCharge = 4;      // the memory of a view, in elements of Heap::charge

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
  std::string shown = without_middle(printable(full), kLongestShown);
  if (module == "posix" || module == "nt")
    shown += " (os." + without_middle(printable(name), kLongestShown) + ")";
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

// An id is ("storage", type, key, device, count), and None behind it in legacy files.
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

}  // namespace coldframe::vit::pickle
