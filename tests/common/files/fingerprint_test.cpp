#include "common/files/fingerprint.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Fingerprint, Sha256EqualsThePublishedVectors) {  // FIPS 180-4 examples
  EXPECT_EQ(sha256_hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(sha256_hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Fingerprint, Xxh3EqualsThePublishedVectors) {  // of empty input, seed 0 (xxHash's tests)
  EXPECT_EQ(xxh3_64({}), 0x2D06800538D394C2ull);
  EXPECT_EQ(to_hex(xxh3_128({})), "99aa06d3014798d86001c324468d497f");
}

TEST(Fingerprint, PiecesGiveTheDigestOfTheWhole) {
  std::string text;
  for (unsigned i = 0; i < 3000000; ++i) text += static_cast<char>(i * i % 251);
  const std::string whole = to_hex(xxh3_128(bytes_of(text)));
  for (const std::size_t piece : {1000u, 65537u, 3000000u}) {
    Xxh3Stream stream;
    for (std::size_t at = 0; at < text.size(); at += piece) {
      stream.update(bytes_of(std::string_view(text).substr(at, piece)));
    }
    EXPECT_EQ(stream.hex(), whole);
    EXPECT_EQ(stream.hex(), whole) << "asking does not change it";
  }
  const testing::TemporaryFolder folder;
  folder.write("a", text);
  EXPECT_EQ(sha256_file(folder / "a"), sha256_hex(text));
}

TEST(Fingerprint, UnreadableFilesAreDataErrors) {
  const testing::TemporaryFolder folder;
  EXPECT_THROW(sha256_file(folder / "none"), DataError);
}

}  // namespace
}  // namespace coldframe
