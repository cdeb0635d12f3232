// The format of torch.save since 1.6: a zip archive of <name>/data.pkl, <name>/data/<key> for each
// storage, <name>/byteorder and <name>/version.
#include "common/cli/error.h"
#include "common/files/bytes/zip_archive.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pickle/unpickler.h"
#include "extract/vit/checkpoint/pth/pth_file.h"

namespace coldframe::vit {

namespace {

class PthZip : public PthFile {
 public:
  explicit PthZip(const ByteSource& file) : PthFile(file), archive_(file) {
    folder_ = find_folder();
    const std::string byteorder = folder_ + "byteorder";
    if (archive_.entries().contains(byteorder) && stored_entry(byteorder).size < 16 &&
        archive_.read(byteorder) != "little")
      throw DataError("saved on a big-endian machine; save it again on a little-endian one");
    const std::string name = folder_ + "data.pkl";
    const std::uint64_t size = stored_entry(name).size;
    if (size > kMaxPickle)
      throw DataError(concat("its pickle has ", human_bytes(size), ", at most ",
                             human_bytes(kMaxPickle),
                             " are read; save the model's state_dict() alone"));
    const std::string bytes = archive_.read(name);
    root_ = &pickle::Unpickler(bytes, heap_).load();
  }

  void read_storage(const pickle::Storage& storage, std::span<std::byte> bytes) override {
    const std::string name = folder_ + "data/" + storage.key;
    stored_entry(name);
    archive_.read(name, bytes);
  }

 private:
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

}  // namespace

bool is_pth_zip(const ByteSource& file) {
  return file.size() >= 4 && file.read(0, 4) == std::string_view("PK\x03\x04", 4);
}

std::unique_ptr<PthFile> open_pth_zip(const ByteSource& file) {
  return std::make_unique<PthZip>(file);
}

}  // namespace coldframe::vit
