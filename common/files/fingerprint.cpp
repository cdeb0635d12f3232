#include "common/files/fingerprint.h"

#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>
#include <cerrno>
#include <cstring>
#include <functional>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/cli/interrupt.h"
#include "common/files/file.h"
#include "common/files/retry_policy.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

class Sha256 {
 public:
  Sha256() : context_(EVP_MD_CTX_new(), EVP_MD_CTX_free) {
    if (!context_ || EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr) != 1) {
      throw SystemError("OpenSSL offers no SHA-256; check the libssl3 package");
    }
  }
  void update(const void* data, std::size_t size) { EVP_DigestUpdate(context_.get(), data, size); }
  std::string hex() {
    std::array<std::byte, 32> digest;
    EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()), nullptr);
    return to_hex(digest);
  }

 private:
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context_;
};

// Feeds a file's content to `consume`, a mebibyte at a time.
void stream_file(const std::filesystem::path& path,
                 const std::function<void(std::span<const std::byte>)>& consume) {
  const InputFile file(path);
  std::vector<std::byte> buffer(1 << 20);
  for (std::uint64_t offset = 0;;) {
    if (stop_requested()) throw Interrupted(concat("stopped while '", path.string(), "' was read"));
    const std::size_t count = file.read_some(offset, buffer);
    if (count == 0) return;
    consume(std::span(buffer.data(), count));
    offset += count;
  }
}

std::array<std::byte, 16> canonical(XXH128_hash_t hash) {
  XXH128_canonical_t big_endian;
  XXH128_canonicalFromHash(&big_endian, hash);
  std::array<std::byte, 16> digest;
  std::memcpy(digest.data(), big_endian.digest, digest.size());
  return digest;
}

}  // namespace

std::string to_hex(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * bytes.size());
  for (const std::byte byte : bytes) {
    hex += kDigits[std::to_integer<unsigned>(byte) >> 4];
    hex += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return hex;
}

std::string sha256_hex(std::string_view bytes) {
  Sha256 sha;
  sha.update(bytes.data(), bytes.size());
  return sha.hex();
}

std::string sha256_file(const std::filesystem::path& path) {
  Sha256 sha;
  stream_file(path,
              [&](std::span<const std::byte> bytes) { sha.update(bytes.data(), bytes.size()); });
  return sha.hex();
}

std::uint64_t xxh3_64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

std::array<std::byte, 16> xxh3_128(std::span<const std::byte> bytes) {
  return canonical(XXH3_128bits(bytes.data(), bytes.size()));
}

struct Xxh3Stream::State {
  // xxHash's state needs an alignment of 64 bytes, which its own allocator gives.
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> hash{XXH3_createState(),
                                                                       XXH3_freeState};
};

Xxh3Stream::Xxh3Stream() : state_(std::make_unique<State>()) {
  if (!state_->hash) throw std::bad_alloc();
  XXH3_128bits_reset(state_->hash.get());
}

Xxh3Stream::Xxh3Stream(const Xxh3Stream& other) : Xxh3Stream() {
  *this = other;
}

Xxh3Stream& Xxh3Stream::operator=(const Xxh3Stream& other) {
  XXH3_copyState(state_->hash.get(), other.state_->hash.get());
  return *this;
}

Xxh3Stream::~Xxh3Stream() = default;

void Xxh3Stream::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(state_->hash.get(), bytes.data(), bytes.size());
}

std::array<std::byte, 16> Xxh3Stream::digest() const {
  return canonical(XXH3_128bits_digest(state_->hash.get()));
}

std::string Xxh3Stream::hex() const {
  return to_hex(digest());
}

namespace {

std::string file_stamp(const std::filesystem::path& path) {
  struct stat status = {};
  for (RetryPolicy tries(path);
       ::stat(path.c_str(), &status) != 0 || ::access(path.c_str(), R_OK) != 0;)
    if (!tries.again(errno)) return "-";
  const std::int64_t nanoseconds =
      std::int64_t{status.st_mtim.tv_sec} * 1000000000 + status.st_mtim.tv_nsec;
  return concat(status.st_size, ':', nanoseconds);
}

}  // namespace

std::filesystem::path voxel_file(const std::filesystem::path& header) {
  std::filesystem::path stem = header;
  if (lower(stem.extension().string()) == ".gz") stem.replace_extension();
  for (const char* suffix : {".img", ".img.gz", ".IMG"}) {
    std::filesystem::path path = std::filesystem::path(stem).replace_extension(suffix);
    if (std::filesystem::is_regular_file(status_of(path))) return path;
  }
  return {};
}

std::vector<std::filesystem::path> with_voxel_files(
    const std::vector<std::filesystem::path>& files) {
  std::vector<std::filesystem::path> all;
  for (const auto& path : files) {
    all.push_back(path);
    const std::string name = lower(path.filename().string());
    if (!name.ends_with(".hdr") && !name.ends_with(".hdr.gz")) continue;
    if (auto voxels = voxel_file(path); !voxels.empty()) all.push_back(std::move(voxels));
  }
  return all;
}

std::string files_stamp(const std::vector<std::filesystem::path>& named) {
  const auto files = with_voxel_files(named);
  std::string all;
  for (const auto& path : files) all += concat(all.empty() ? "" : ";", file_stamp(path));
  if (files.size() <= 1) return all;
  return concat(files.size(), ':', to_hex(xxh3_128(std::as_bytes(std::span(all)))));
}

std::string files_part(const std::string& exam_stamp) {
  return exam_stamp.substr(0, exam_stamp.find('/'));
}

}  // namespace coldframe
