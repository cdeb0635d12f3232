#include "extract/vit/checkpoint/pickle/rebuild.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pickle/globals.h"

namespace coldframe::vit::pickle {

namespace {

constexpr std::size_t kMaxDimensions = 64;
constexpr std::size_t kMaxKey = 256;  // torch.save's keys are decimal numbers
// The memory of a view, in elements of Heap::charge.
constexpr std::size_t kViewCharge = 4;

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

Value* rebuild_tensor(Heap& heap, Global global, const Value& arguments,
                      const std::string& caller) {
  const Value& storage = argument(arguments, 0, Kind::kStorage, caller);
  TensorView view = heap.views[*storage.view];
  view.offset = argument(arguments, 1, Kind::kInt, caller).integer;
  view.sizes = integers(argument(arguments, 2, Kind::kTuple, caller), caller);
  view.strides = integers(argument(arguments, 3, Kind::kTuple, caller), caller);
  std::size_t metadata = 6;
  if (global == Global::kRebuildTensorV3) {
    const Value& dtype = argument(arguments, 6, Kind::kGlobal, caller);
    view.dtype = dtype.text.substr(std::string_view("torch.").size());
    metadata = 7;
  }
  // The metadata says that a tensor is to be read negated or conjugated.
  if (metadata < arguments.items.size() && !arguments.items[metadata]->items.empty())
    throw DataError(concat(caller,
                           ": a negated or conjugated view is not supported; save a copy "
                           "of the tensor"));
  heap.charge(kViewCharge + view.sizes.size());
  Value* tensor = heap.make(Kind::kTensor);
  tensor->view = heap.views.size();
  heap.views.push_back(std::move(view));
  return tensor;
}

// OrderedDict(), OrderedDict([[key, value], …]) as Python 2 pickled it, Counter({…}),
// defaultdict(factory).
Value* make_dict(Heap& heap, const Value& arguments) {
  Value* dict = heap.make(Kind::kDict);
  for (const Value* source : arguments.items) {
    heap.charge(source->items.size());
    if (source->is(Kind::kDict))
      dict->items.insert(dict->items.end(), source->items.begin(), source->items.end());
    if (!source->is(Kind::kList)) continue;
    for (const Value* pair : source->items) {
      if (pair->items.size() != 2)
        throw DataError("a dict is built from something else than pairs");
      dict->items.insert(dict->items.end(), pair->items.begin(), pair->items.end());
    }
  }
  return dict;
}

// (function, type, arguments, state): how torch.save writes subclasses of Tensor, and tensors with
// attributes of their own.
Value* rebuild_from_type(Heap& heap, const Value& arguments, const std::string& caller) {
  const Value& function = argument(arguments, 0, Kind::kGlobal, caller);
  const Value& inner = argument(arguments, 2, Kind::kTuple, caller);
  if (kind_of_global(function.text) == Global::kRebuildFromType)
    throw DataError(concat(caller, " calls itself"));
  return call(heap, function, inner);
}

}  // namespace

Value* call(Heap& heap, const Value& callable, const Value& arguments) {
  if (!callable.is(Kind::kGlobal))
    throw DataError(concat("refused: the pickle calls ", describe(callable.kind)));
  if (!arguments.is(Kind::kTuple))
    throw DataError(concat("the pickle calls ", callable.text, " with ", describe(arguments.kind),
                           " instead of a tuple"));
  const Global global = kind_of_global(callable.text);
  switch (global) {
    case Global::kRebuildTensor:
    case Global::kRebuildTensorV2:
    case Global::kRebuildTensorV3:
      return rebuild_tensor(heap, global, arguments, callable.text);
    case Global::kRebuildParameter: {
      Value* tensor = heap.make(Kind::kTensor);
      tensor->view = argument(arguments, 0, Kind::kTensor, callable.text).view;
      return tensor;
    }
    case Global::kRebuildFromType:
      return rebuild_from_type(heap, arguments, callable.text);
    case Global::kDict:
      return make_dict(heap, arguments);
    case Global::kStorageType:
    case Global::kDtype:
      throw DataError(concat("refused: the pickle calls ", callable.text));
    case Global::kInert:
      break;
  }
  // torch.Size and tuple are wanted as the sizes of tensors; any other content is of no use here.
  const bool is_tuple = callable.text == "torch.Size" || callable.text == "builtins.tuple";
  Value* object = heap.make(is_tuple ? Kind::kTuple : Kind::kObject);
  object->text = callable.text;
  if (is_tuple && !arguments.items.empty()) {
    heap.charge(arguments.items[0]->items.size());
    object->items = arguments.items[0]->items;
  }
  return object;
}

Value* load_persistent(Heap& heap, const Value& id) {
  const std::string caller = "a persistent id";
  if (!id.is(Kind::kTuple) || id.items.empty() || !id.items[0]->is(Kind::kText) ||
      id.items[0]->text != "storage")
    throw DataError(
        "refused: the pickle refers to something else than a tensor's storage (a whole "
        "model?); save model.state_dict() alone");
  const Value& type = argument(id, 1, Kind::kGlobal, caller);
  if (kind_of_global(type.text) != Global::kStorageType)
    throw DataError(concat("a storage has the type ", type.text));
  TensorView view;
  view.storage.type = type.text.substr(type.text.rfind('.') + 1);
  const std::string& key = argument(id, 2, Kind::kText, caller).text;
  if (key.size() > kMaxKey) throw DataError("a storage whose key is overlong");
  view.storage.key = key;
  view.storage.count = argument(id, 4, Kind::kInt, caller).integer;
  view.storage.length = view.storage.count;
  if (id.items.size() > 5 && !id.items[5]->is(Kind::kNone)) {
    const Value& part = argument(id, 5, Kind::kTuple, caller);
    view.storage.first = argument(part, 1, Kind::kInt, caller).integer;
    view.storage.length = argument(part, 2, Kind::kInt, caller).integer;
  }
  heap.charge(kViewCharge);
  Value* storage = heap.make(Kind::kStorage);
  storage->view = heap.views.size();
  heap.views.push_back(std::move(view));
  return storage;
}

}  // namespace coldframe::vit::pickle
