#include "extract/vit/checkpoint/pth/tensor_builder.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/element_type.h"

namespace coldframe::vit {

namespace {

// Tensors may share a storage or repeat its elements, but not so that a small file stands for an
// arbitrary amount of memory.
constexpr std::uint64_t kMaxExpansion = 4, kSmallFile = 1u << 20;

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

torch::Tensor TensorBuilder::storage_bytes(const pickle::Storage& storage) {
  const auto found = storages_.find(storage.key);
  if (found != storages_.end()) return found->second;
  const std::uint64_t element = element_type_of_storage(storage.type).size;
  if (storage.count < 0 || static_cast<std::uint64_t>(storage.count) > file_.file_size() / element)
    throw DataError(concat("storage ", storage.key, " claims ", storage.count,
                           " elements, more than the file has bytes for"));
  if (__builtin_add_overflow(loaded_, storage.count * element, &loaded_) ||
      loaded_ > file_.file_size())
    throw DataError("the storages overlap: together they are larger than the file");
  const auto size = static_cast<std::int64_t>(static_cast<std::uint64_t>(storage.count) * element);
  torch::Tensor bytes = torch::empty({size}, torch::kUInt8);
  file_.read_storage(storage,
                     {static_cast<std::byte*>(bytes.data_ptr()), static_cast<std::size_t>(size)});
  storages_.emplace(storage.key, bytes);
  return bytes;
}

torch::Tensor TensorBuilder::build(const pickle::TensorView& view) {
  const pickle::Storage& storage = view.storage;
  const ElementType& stored = element_type_of_storage(storage.type);
  const ElementType& type = view.dtype.empty() ? stored : element_type_of_dtype(view.dtype);
  if (type.scalar == torch::ScalarType::Undefined)
    throw DataError(concat("a tensor of type ", type.dtype, " is not supported"));
  const torch::Tensor bytes = storage_bytes(storage);
  const auto count = static_cast<std::uint64_t>(bytes.numel()) / stored.size;
  if (storage.first < 0 || storage.length < 0 ||
      static_cast<std::uint64_t>(storage.first) > count ||
      static_cast<std::uint64_t>(storage.length) > count - storage.first)
    throw DataError(concat("a view of storage ", storage.key, " lies outside it"));
  const std::uint64_t available = static_cast<std::uint64_t>(storage.length) * stored.size;
  Extent extent;
  if (!measure(view, extent) || extent.end > available / type.size)
    throw DataError(concat("its sizes and strides reach outside its storage of ",
                           available / type.size, " elements"));
  if (__builtin_add_overflow(built_, extent.elements, &built_) ||
      built_ > kMaxExpansion * file_.file_size() + kSmallFile)
    throw DataError("the tensors claim far more elements than the file holds");
  const auto first = static_cast<std::int64_t>(storage.first * stored.size);
  if (static_cast<std::uint64_t>(first) % type.size != 0)
    throw DataError("it starts between two elements of its storage");
  torch::Tensor flat =
      bytes.slice(0, first, first + static_cast<std::int64_t>(available / type.size * type.size));
  // Only 0 and 1 are booleans; a file may hold any byte.
  flat = type.scalar == torch::kBool ? flat.ne(0) : flat.view(type.scalar);
  return flat.as_strided(view.sizes, view.strides, flat.storage_offset() + view.offset);
}

}  // namespace coldframe::vit
