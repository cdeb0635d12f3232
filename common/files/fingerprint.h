// Digests: SHA-256 (OpenSSL) names weights and recipes, XXH3 (xxHash) finds damage.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace coldframe {

std::string sha256_hex(std::string_view bytes);
std::string sha256_file(const std::filesystem::path& path);  // DataError if unreadable

std::uint64_t xxh3_64(std::span<const std::byte> bytes);
std::array<std::byte, 16> xxh3_128(
    std::span<const std::byte> bytes);  // canonical (big-endian) order

// XXH3-128 over pieces that arrive one after another.
class Xxh3Stream {
 public:
  Xxh3Stream();
  Xxh3Stream(const Xxh3Stream& other);  // goes on from where that one is
  Xxh3Stream& operator=(const Xxh3Stream& other);
  ~Xxh3Stream();
  void update(std::span<const std::byte> bytes);
  std::array<std::byte, 16> digest() const;
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string to_hex(std::span<const std::byte> bytes);

// Records how files looked when they were read: the quick way to find that one has changed since.

// The file with the voxels of a NIfTI or Analyze header, NAME.hdr or NAME.hdr.gz: NAME.img or
// NAME.img.gz beside it; empty when there is none.
std::filesystem::path voxel_file(const std::filesystem::path& header);

// `files`, each NAME.hdr among them followed by its voxel_file().
std::vector<std::filesystem::path> with_voxel_files(
    const std::vector<std::filesystem::path>& files);

// Size and modification time (nanoseconds) of each of `files` and their voxel files, as
// "1024:1700000000000000000"; of several files their number and a digest of all, since a cache
// stores it per exam. A file that cannot be read has the stamp "-".
std::string files_stamp(const std::vector<std::filesystem::path>& files);

// A cache stores, per exam, "<files_stamp>/<what else tells>": the part before the slash.
std::string files_part(const std::string& exam_stamp);

}  // namespace coldframe
