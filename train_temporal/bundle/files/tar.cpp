#include "train_temporal/bundle/files/tar.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "train_temporal/bundle/files/checksums.h"
#include "train_temporal/bundle/files/copy.h"

namespace coldframe::bundle {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMostBytes = (1ull << 33) - 1;  // 11 octal digits
constexpr const char* kRoot = "bundle/";

// The fields of a header: where they begin, and their sizes.
constexpr std::size_t kName = 0, kNameSize = 100, kMode = 100, kOwner = 108, kGroup = 116,
                      kSize = 124, kTime = 136, kSum = 148, kType = 156, kMagic = 257;

std::string octal(std::uint64_t value, std::size_t digits) {
  std::string text(digits, '0');
  for (std::size_t i = digits; i-- > 0; value >>= 3) text[i] = static_cast<char>('0' + (value & 7));
  return text;
}

std::string header_of(const std::string& name, std::uint64_t bytes) {
  std::string header(kBlock, '\0');
  const auto put = [&](std::size_t at, const std::string& text) {
    header.replace(at, text.size(), text);
  };
  put(kName, kRoot + name);
  put(kMode, octal(0644, 7));
  put(kOwner, octal(0, 7));
  put(kGroup, octal(0, 7));
  put(kSize, octal(bytes, 11));
  put(kTime, octal(0, 11));
  put(kSum, std::string(8, ' '));
  put(kType, "0");
  put(kMagic, std::string("ustar\0"
                          "00",
                          8));
  std::uint64_t sum = 0;
  for (const unsigned char c : header) sum += c;
  put(kSum, octal(sum, 6) + std::string("\0 ", 2));
  return header;
}

std::uint64_t padding_of(std::uint64_t bytes) {
  return (kBlock - bytes % kBlock) % kBlock;
}

// Name and size as an honest header has them; whether it is one, header_of() tells.
std::string name_in(const std::string& header) {
  const std::string name = header.substr(kName, kNameSize).c_str();
  const std::string root = kRoot;
  return name.starts_with(root) ? name.substr(root.size()) : "";
}

std::uint64_t size_in(const std::string& header) {
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < 11; ++i)
    bytes = 8 * bytes + static_cast<std::uint64_t>((header[kSize + i] - '0') & 7);
  return bytes;
}

bool is_zero(const std::string& bytes) {
  return std::ranges::all_of(bytes, [](char c) { return c == '\0'; });
}

}  // namespace

void write_tar(const fs::path& folder, const fs::path& out) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file())
      names.insert(entry.path().lexically_relative(folder).generic_string());
  AtomicFile tar(out);
  for (const std::string& name : names) {
    const InputFile file(folder / name);
    if (file.size() > kMostBytes || std::strlen(kRoot) + name.size() > kNameSize)
      throw ConfigError(concat("a tar file has no room for '", name, "' of ",
                               human_bytes(file.size()), "; leave out --tar"));
    tar.append(header_of(name, file.size()));
    append(tar, file, 0, file.size());
    tar.append(std::string(padding_of(file.size()), '\0'));
  }
  tar.append(std::string(2 * kBlock, '\0'));
  tar.finish();
}

void unpack_tar(const fs::path& tar, const fs::path& folder) {
  const InputFile file(tar);
  const auto refuse = [&](const std::string& what) {
    throw DataError(
        concat("'", tar.string(), "': ", what,
               ": it was damaged, or is not a bundle of `coldframe bundle make --tar`"));
  };
  if (file.size() % kBlock != 0 || file.size() < 2 * kBlock)
    refuse(concat("its ", file.size(), " bytes are not those of a tar file"));
  std::uint64_t at = 0;
  const std::uint64_t end = file.size() - 2 * kBlock;
  std::string last;
  while (at < end) {
    const std::string header = file.read(at, kBlock);
    const std::string name = name_in(header);
    const std::uint64_t bytes = size_in(header);
    if (!stays_inside(name) || name <= last || header != header_of(name, bytes))
      refuse(concat("the header of '", name, "' at byte ", at, " is not one of a bundle's"));
    at += kBlock;
    if (bytes + padding_of(bytes) > end - at) refuse(concat("'", name, "' is cut short"));
    create_folders_durably((folder / name).parent_path());
    AtomicFile unpacked(folder / name);
    append(unpacked, file, at, bytes);
    unpacked.finish();
    if (!is_zero(file.read(at + bytes, padding_of(bytes))))
      refuse(concat("something lies behind '", name, "'"));
    at += bytes + padding_of(bytes);
    last = name;
  }
  if (at != end || !is_zero(file.read(end, 2 * kBlock))) refuse("its end is not one of a tar file");
}

}  // namespace coldframe::bundle
