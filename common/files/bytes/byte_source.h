// Bytes by position that nobody vouches for, in a file or in memory: how many there are is known
// before anything is allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace coldframe {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual std::uint64_t size() const = 0;
  // Fills `bytes` from `offset` as far as the content goes and returns how many there were.
  virtual std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const = 0;

  // Both refuse a content that ends before; the second one does so before it allocates.
  void read_at(std::uint64_t offset, std::span<std::byte> bytes) const;
  std::string read(std::uint64_t offset, std::uint64_t count) const;

 protected:
  // Throws: DataError that says `reason` alone, unless a kind of source knows more.
  [[noreturn]] virtual void refuse(std::string_view reason) const;

 private:
  void require(std::uint64_t offset, std::uint64_t count) const;
};

class MemoryBytes : public ByteSource {
 public:
  explicit MemoryBytes(std::string content) : content_(std::move(content)) {}
  std::uint64_t size() const override { return content_.size(); }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const override;

 private:
  std::string content_;
};

}  // namespace coldframe
