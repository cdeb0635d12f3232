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

}  // namespace coldframe
