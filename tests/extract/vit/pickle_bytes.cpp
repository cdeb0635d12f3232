#include "tests/extract/vit/pickle_bytes.h"

#include <zlib.h>

#include <fstream>

#include "common/text/text.h"

namespace coldframe::vit::test {

namespace {

std::string pickled_int(std::int64_t value) {
  return concat("\x8a\x08", little(static_cast<std::uint64_t>(value), 8));  // LONG1
}

std::string pickled_tuple(const std::vector<std::int64_t>& values) {
  std::string bytes = "(";
  for (const std::int64_t value : values) bytes += pickled_int(value);
  return concat(bytes, "t");
}

std::string floats() {
  std::string bytes;
  for (const float value : {0.f, 1.f, 2.f, 3.f, 4.f, 5.f})
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  return bytes;
}

}  // namespace

std::string little(std::uint64_t value, int bytes) {
  std::string out;
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
  return out;
}

std::string zip(const std::vector<ZipItem>& items) {
  std::string file, directory;
  for (const ZipItem& item : items) {
    const auto crc = crc32(0, reinterpret_cast<const Bytef*>(item.content.data()),
                           static_cast<uInt>(item.content.size()));
    const std::string common = little(20, 2) + little(0, 2) + little(0, 2) + little(0, 4) +
                               little(crc, 4) + little(item.content.size(), 4) +
                               little(item.content.size(), 4) + little(item.name.size(), 2) +
                               little(0, 2);
    directory += concat("PK\x01\x02", little(20, 2), common, little(0, 2), little(0, 2),
                        little(0, 2), little(0, 4), little(file.size(), 4), item.name);
    file += concat("PK\x03\x04", common, item.name, item.content);
  }
  const std::string end =
      concat("PK\x05\x06", little(0, 4), little(items.size(), 2), little(items.size(), 2),
             little(directory.size(), 4), little(file.size(), 4), little(0, 2));
  return file + directory + end;
}

std::string pickled_text(std::string_view text) {
  return concat("X", little(text.size(), 4), std::string(text));
}

std::string pickled_state_dict(const PickledView& view) {
  const std::string storage =
      concat("(", pickled_text("storage"), "ctorch\n", view.storage_type, "\n", pickled_text("0"),
             pickled_text("cpu"), pickled_int(view.count), "tQ");
  const std::string tensor =
      concat("ctorch._utils\n_rebuild_tensor_v2\n(", storage, pickled_int(view.offset),
             pickled_tuple(view.sizes), pickled_tuple(view.strides), "\x89",
             "ccollections\nOrderedDict\n)RtR");
  return concat("\x80\x02}", pickled_text(view.name), tensor, "s.");
}

std::string pth_zip(const PickledView& view) {
  return zip({{"archive/data.pkl", pickled_state_dict(view)},
              {"archive/byteorder", "little"},
              {"archive/data/0", floats()},
              {"archive/version", "3\n"}});
}

std::string pth_legacy(const PickledView& view) {
  const std::string magic("\x80\x02\x8a\nl\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  const std::string version = "\x80\x02M\xe9\x03.";
  const std::string system = concat("\x80\x02}", pickled_text("little_endian"), "\x88s.");
  const std::string keys = concat("\x80\x02]", pickled_text("0"), "a.");
  return magic + version + system + pickled_state_dict(view) + keys + little(6, 8) + floats();
}

void write_file(const std::filesystem::path& path, std::string_view bytes) {
  // A new file: ext4 flushes to disk when an old one is truncated, which takes milliseconds.
  std::filesystem::remove(path);
  std::ofstream(path, std::ios::binary)
      .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

}  // namespace coldframe::vit::test
