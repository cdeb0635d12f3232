// What a callback throws that a library in C calls: it arrives as it was thrown, and the library
// has ended its call before, so that nothing is lost in it.
#include "common/cli/error.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <functional>
#include <new>

#include "extract/decode/clip/packets.h"
#include "extract/decode/tiff/file.h"

namespace coldframe::frames {
namespace {

TEST(KeptError, TheFirstOneIsThrownAgain) {
  KeptError kept;
  EXPECT_EQ(kept.guard(-1, [] { return 3; }), 3);
  kept.rethrow();
  EXPECT_EQ(kept.guard(-1, []() -> int { throw DataError("first"); }), -1);
  EXPECT_EQ(kept.guard(-1, []() -> int { throw DataError("second"); }), -1);
  EXPECT_EQ(kept.guard(-1, [] { return 3; }), -1) << "nothing is done behind an error";
  EXPECT_TRUE(kept);
  const auto message = [](const std::function<void()>& body) -> std::string {
    try {
      body();
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message([&] { kept.rethrow(); }), "first");
  EXPECT_EQ(message([&] { kept.call([] { return 1; }); }), "first");
  EXPECT_EQ(message([&] { kept.call([] { throw DataError("what was made of it"); }); }), "first");
  EXPECT_EQ(KeptError().call([] { return 7; }), 7);
  EXPECT_EQ(message([] { KeptError().call([] { throw DataError("mine"); }); }), "mine");
}

// Bytes that can be read so many times.
class FailingBytes : public ByteSource {
 public:
  FailingBytes(std::string content, int reads, std::function<void()> fail)
      : bytes_(std::move(content)), reads_(reads), fail_(std::move(fail)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  std::size_t read_some(std::uint64_t offset, std::span<std::byte> bytes) const override {
    if (reads_-- <= 0) fail_();
    return bytes_.read_some(offset, bytes);
  }

 private:
  MemoryBytes bytes_;
  mutable int reads_;
  std::function<void()> fail_;
};

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i, value >>= 8) text += static_cast<char>(value & 0xff);
  return text;
}

// A page of 64×64 grey pixels behind its directory.
std::string tiff_bytes() {
  constexpr std::uint64_t kSide = 64, kDirectory = 8;
  const std::uint64_t fields[][3] = {{256, 3, kSide}, {257, 3, kSide}, {258, 3, 8},
                                     {259, 3, 1},     {262, 3, 1},     {273, 4, 0},
                                     {277, 3, 1},     {278, 3, kSide}, {279, 4, kSide * kSide}};
  const std::uint64_t pixels = kDirectory + 2 + 12 * std::size(fields) + 4;
  std::string file = "II*" + std::string(1, '\0') + little_endian(kDirectory, 4) +
                     little_endian(std::size(fields), 2);
  for (const auto& [tag, type, value] : fields)
    file += little_endian(tag, 2) + little_endian(type, 2) + little_endian(1, 4) +
            little_endian(tag == 273 ? pixels : value, 4);
  return file + little_endian(0, 4) + std::string(kSide * kSide, '\7');
}

void read_tiff(std::shared_ptr<const ByteSource> bytes) {
  TiffFile file(std::move(bytes));
  std::string fault;
  file.open_page({file.directories(fault).front().offset});
  file.read_rows([](std::int64_t, std::span<const double>) {});
}

void read_clip(std::shared_ptr<const ByteSource> bytes) {
  ClipInput(std::move(bytes));
}

struct Reader {
  const char* name;
  std::string content;
  void (*read)(std::shared_ptr<const ByteSource>);
};

class LibraryInC : public ::testing::TestWithParam<Reader> {};

// Also before the library reads for the first time, and until it has read all.
TEST_P(LibraryInC, AnErrorOfOursArrivesAndLeavesNothingBehind) {
  const auto end_of_memory = [] { throw std::bad_alloc(); };
  const auto disk_is_gone = [] { throw DataError("the disk is gone"); };
  for (int reads = 0; reads < 4; ++reads) {
    const auto bytes_with = [&](const std::function<void()>& fail) {
      return std::make_shared<FailingBytes>(GetParam().content, reads, fail);
    };
    const auto fail_once = [&] {
      EXPECT_THROW(GetParam().read(bytes_with(end_of_memory)), std::bad_alloc) << reads;
    };
    if (GetParam().read == read_tiff && reads > 2) break;  // that is all
    for (int i = 0; i < 50; ++i) fail_once();              // what libraries keep for good
    const std::size_t before = ::mallinfo2().uordblks;
    for (int i = 0; i < 50; ++i) fail_once();
    EXPECT_LT(::mallinfo2().uordblks, before + 50 * 100) << reads;
    try {
      GetParam().read(bytes_with(disk_is_gone));
      ADD_FAILURE() << "no error after " << reads;
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "the disk is gone") << reads;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LibraryInC,
                         ::testing::Values(Reader{"Tiff", tiff_bytes(), read_tiff},
                                           Reader{"Clip",
                                                  std::string("\0\0\0\x18"
                                                              "ftypisom\0\0\2\0isomiso2",
                                                              24) +
                                                      std::string("\0\x10\0\0mdat", 8) +
                                                      std::string(1 << 20, '\1'),
                                                  read_clip}),
                         [](const auto& given) { return std::string(given.param.name); });

}  // namespace
}  // namespace coldframe::frames
