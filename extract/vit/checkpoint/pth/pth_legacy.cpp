// The format of torch.save before 1.6: five pickles in a row (magic number, protocol version,
// system information, the object, the storages' keys), then for each key an int64 count and the
// storage's elements.
#include <algorithm>
#include <map>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/element_type.h"
#include "extract/vit/checkpoint/pickle/unpickler.h"
#include "extract/vit/checkpoint/pth/pth_file.h"

namespace coldframe::vit {

namespace {

using pickle::Value;

// 0x1950a86a20f9469cfc6c, little-endian as the pickle holds it (torch/serialization.py).
constexpr std::string_view kMagic("\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19", 10);
constexpr std::int64_t kProtocolVersion = 1001;

class PthLegacy : public PthFile {
 public:
  explicit PthLegacy(const ByteSource& file) : PthFile(file) {
    const std::string bytes = file.read(0, std::min(file.size(), kMaxPickle));
    pickle::Unpickler unpickler(bytes, heap_);
    const Value& magic = unpickler.load();
    if (!magic.is(Value::Kind::kBigInt) || magic.text != kMagic)
      throw DataError("a pickle, but not one that torch.save wrote");
    const Value& version = unpickler.load();
    if (!version.is(Value::Kind::kInt) || version.integer != kProtocolVersion)
      throw DataError("an unknown version of PyTorch's legacy format");
    const Value& system = unpickler.load();
    const Value* little_endian = system.find("little_endian");
    if (little_endian != nullptr && little_endian->integer == 0)
      throw DataError("saved on a big-endian machine; save it again on a little-endian one");
    root_ = &unpickler.load();
    const Value& keys = unpickler.load();
    locate_storages(keys, unpickler.position());
  }

  void read_storage(const pickle::Storage& storage, std::span<std::byte> bytes) override {
    const auto found = storages_.find(storage.key);
    if (found == storages_.end())
      throw DataError(concat("storage ", storage.key, " is not in the file"));
    if (found->second.size != bytes.size())
      throw DataError(concat("storage ", storage.key, " has ", found->second.size,
                             " bytes where the pickle says ", bytes.size()));
    file_.read_at(found->second.offset, bytes);
  }

 private:
  struct Place {
    std::uint64_t offset, size;
  };

  void locate_storages(const Value& keys, std::uint64_t offset) {
    std::map<std::string_view, std::string_view> types;
    for (const pickle::TensorView& view : heap_.views)
      types.emplace(view.storage.key, view.storage.type);
    for (const Value* key : keys.items) {
      const auto type = types.find(key->text);
      if (!key->is(Value::Kind::kText) || type == types.end())
        throw DataError("its list of storages names one that no tensor uses");
      const std::uint64_t count = ByteCursor(file_.read(offset, 8)).number(8);
      const std::uint64_t element = element_type_of_storage(type->second).size;
      offset += 8;
      if (count > (file_.size() - offset) / element)
        throw DataError(concat("truncated: storage ", key->text, " has ", count,
                               " elements, the file ends before them"));
      storages_.emplace(key->text, Place{offset, count * element});
      offset += count * element;
    }
  }

  std::map<std::string, Place> storages_;
};

}  // namespace

bool is_pth_legacy(const ByteSource& file) {
  if (file.size() < 2) return false;
  const std::string start = file.read(0, 2);
  return start[0] == '\x80' && start[1] >= 2 && start[1] <= 5;
}

std::unique_ptr<PthFile> open_pth_legacy(const ByteSource& file) {
  return std::make_unique<PthLegacy>(file);
}

}  // namespace coldframe::vit
