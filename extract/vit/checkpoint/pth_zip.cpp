// The format of torch.save since 1.6: a zip archive of <name>/data.pkl, <name>/data/<key> for each
// storage, <name>/byteorder and <name>/version.
#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pickle/unpickler.h"
#include "extract/vit/checkpoint/pth_file.h"
#include "extract/vit/checkpoint/zip_archive.h"

namespace coldframe::vit {

namespace {

class PthZip : public PthFile {
 public:
  explicit PthZip(FileReader& file) : PthFile(file), archive_(file) {
    folder_ = find_folder();
    const std::string byteorder = folder_ + "byteorder";
    if (archive_.entries().contains(byteorder) && archive_.entry(byteorder).size < 16 &&
        archive_.read(byteorder) != "little")
      throw DataError("saved on a big-endian machine; save it again on a little-endian one");
    const std::string name = folder_ + "data.pkl";
    if (archive_.entry(name).size > kMaxPickle)
      throw DataError(concat("its pickle has ", human_bytes(archive_.entry(name).size),
                             ", at most ", human_bytes(kMaxPickle),
                             " are read; save the model's state_dict() alone"));
    const std::string bytes = archive_.read(name);
    root_ = &pickle::Unpickler(bytes, heap_).load();
  }

  void read_storage(const pickle::Storage& storage, std::span<char> bytes) override {
    archive_.read(folder_ + "data/" + storage.key, bytes);
  }

 private:
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

bool is_pth_zip(FileReader& file) {
  return file.size() >= 4 && file.read_at(0, 4) == std::string_view("PK\x03\x04", 4);
}

std::unique_ptr<PthFile> open_pth_zip(FileReader& file) {
  return std::make_unique<PthZip>(file);
}

}  // namespace coldframe::vit
