#include "extract/vit/checkpoint/pth.h"

#include <algorithm>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/files/bytes/zip_archive.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pickle.h"

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

  struct Place {
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
      places_.emplace(key->text, Place{offset, count * element});
      offset += count * element;
    }
  }

  std::map<std::string, Place> places_;
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
