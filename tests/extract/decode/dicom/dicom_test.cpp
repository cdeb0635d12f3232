// DICOM files made byte by byte: what is refused, that damage does no harm, and how a folder's
// files are ordered.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>

#include "common/cli/error.h"
#include "extract/decode/dicom/series.h"
#include "extract/decode/exam_spec.h"
#include "tests/extract/decode/read_exam.h"
#include "tests/support/dicom_bytes.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames::dicom {
namespace {

using testing::element, testing::little;
std::string us(unsigned number, unsigned value) {
  return element(0x28, number, "US", little(value, 2));
}

constexpr const char* kExplicit = "1.2.840.10008.1.2.1";
constexpr const char* kJpegLossless = "1.2.840.10008.1.2.4.70";

std::string preamble(const std::string& syntax) {
  return std::string(128, '\0') + "DICM" + element(2, 0x10, "UI", syntax);
}

struct Header {
  std::string syntax = kExplicit, photometric = "MONOCHROME2", frames = "2";
  unsigned rows = 2, columns = 3, samples = 1, allocated = 8, stored = 8, high = 7;
  std::string extra = {};
};

std::string header(const Header& h) {
  return preamble(h.syntax) + us(2, h.samples) + element(0x28, 4, "CS", h.photometric) +
         element(0x28, 8, "IS", h.frames) + us(0x10, h.rows) + us(0x11, h.columns) +
         us(0x100, h.allocated) + us(0x101, h.stored) + us(0x102, h.high) + us(0x103, 0) + h.extra;
}

std::string native(const Header& h, std::size_t bytes = 12) {
  return header(h) + element(0x7FE0, 0x10, "OB", std::string(bytes, '\x11'));
}

std::string fragments(const Header& h, const std::vector<std::string>& parts) {
  std::string text = header(h) + little(0x7FE0, 2) + little(0x10, 2) + "OB" + little(0, 2) +
                     little(0xFFFFFFFF, 4) + little(0xE000FFFE, 4) + little(0, 4);
  for (const std::string& part : parts)
    text += little(0xE000FFFE, 4) + little(part.size(), 4) + part;
  return text + little(0xE0DDFFFE, 4) + little(0, 4);
}

// Every frame decoded; the message when it was refused, else "".
std::string read_all(const std::string& content, const ReaderOptions& options = {}) {
  try {
    const coldframe::testing::TemporaryFolder folder;
    const auto source = open_by("dicom", folder.write("a.dcm", content), options);
    std::vector<std::int64_t> indices;
    for (std::int64_t i = 0; i < source->frame_count(); ++i) indices.push_back(i);
    source->read(indices, [](Frame&& frame) {
      EXPECT_EQ(frame.pixels.rgb.size(),
                static_cast<std::size_t>(frame.pixels.width) * frame.pixels.height * 3);
    });
    return "";
  } catch (const DataError& error) {
    return error.what();
  }
}

TEST(Dicom, WellFormedFilesAreRead) {
  EXPECT_EQ(read_all(native({})), "");
  EXPECT_EQ(read_all(native({.allocated = 1, .stored = 1, .high = 0}, 2)), "");
}

// Uncompressed frames of single bits follow each other without a gap; in fragments each begins one.
TEST(Dicom, SingleBitsBecomePixels) {
  const Header bits{.allocated = 1, .stored = 1, .high = 0};
  Header in_fragments = bits;
  in_fragments.syntax = "1.2.840.10008.1.2.1.98";
  const std::string packed("\x4D\x03", 2);  // 101100 101100 from the lowest bit on
  const std::string native_file = header(bits) + element(0x7FE0, 0x10, "OB", packed);
  for (const std::string& content :
       {native_file, fragments(in_fragments, {std::string("\x0D\0", 2), {"\x0D\0", 2}})}) {
    const coldframe::testing::TemporaryFolder folder;
    const auto source = open_by("dicom", folder.write("a.dcm", content), {});
    std::vector<std::vector<std::uint8_t>> frames;
    source->read(std::vector<std::int64_t>{0, 1},
                 [&](Frame&& frame) { frames.push_back(std::move(frame.pixels.rgb)); });
    ASSERT_EQ(frames.size(), 2u);
    for (const auto& rgb : frames) {
      ASSERT_EQ(rgb.size(), 18u);
      for (std::size_t i = 0; i < 6; ++i)
        EXPECT_EQ(rgb[i * 3], i == 0 || i == 2 || i == 3 ? 255 : 0);
    }
  }
}

struct BadFile {
  const char* name;
  std::string content;
  const char* reason;
};

std::string nested(int depth) {
  std::string text = preamble(kExplicit);
  for (int i = 0; i < depth; ++i) {
    text += little(0x0008, 2) + little(0x1140, 2) + "SQ" + little(0, 2) + little(0xFFFFFFFF, 4) +
            little(0xE000FFFE, 4) + little(0xFFFFFFFF, 4);
  }
  return text;
}

TEST(Dicom, BadFilesAreRefusedWithTheReason) {
  const std::vector<BadFile> files{
      {"text", "exam,path\n", "not a DICOM file"},
      {"no image", header({}), "holds no image"},
      {"report", preamble(kExplicit) + element(8, 0x16, "UI", "1.2.840.10008.5.1.4.1.1.88.11"),
       "a structured report"},
      {"empty pixel data", native({}, 0), "holds no image"},
      {"too few bytes", native({}, 10), "too few for 2 frames of 6 bytes"},
      {"cut off", native({}).substr(0, native({}).size() - 4), "truncated"},
      {"no rows", native({.rows = 0}), "its rows is 0"},
      {"many frames", native({.frames = "9999999"}), "too few for 9999999 frames"},
      {"frames", native({.frames = "-3"}), "its number of frames is -3"},
      {"bits", native({.allocated = 12}), "bits allocated are 12"},
      {"stored", native({.stored = 9}), "bits stored"},
      {"high bit", native({.allocated = 16, .stored = 12, .high = 5}), "leaves no room"},
      {"photometric", native({.photometric = "HSV"}), "'HSV'"},
      {"samples", native({.photometric = "RGB"}), "does not go with"},
      {"palette", native({.photometric = "PALETTE COLOR"}), "look-up table"},
      {"video", fragments({.syntax = "1.2.840.10008.1.2.4.102"}, {"ab"}), "of no known kind"},
      {"native as JPEG", native({.syntax = kJpegLossless}), "not in fragments"},
      {"fragments as native", fragments({}, {"ab", "cd"}), "in fragments, against"},
      {"missing fragments", fragments({.syntax = kJpegLossless}, {"ab"}), "only 1 fragment"},
      {"not JPEG", fragments({.syntax = kJpegLossless}, {"ab", "cd"}), "does not start as JPEG"},
      {"not JPEG 2000", fragments({.syntax = "1.2.840.10008.1.2.4.90"}, {"ab", "cd"}), "JPEG 2000"},
      {"not RLE", fragments({.syntax = "1.2.840.10008.1.2.5"}, {"ab", "cd"}), "cannot be decoded"},
      {"not deflated", native({.syntax = "1.2.840.10008.1.2.1.99"}), "deflated data set"},
      {"deep", nested(100'000), "cannot be read beyond"},
      {"long element",
       preamble(kExplicit) + little(0x0008, 2) + little(0x1234, 2) + "OB" + little(0, 2) +
           little(0xFFFFFFF0, 4) + "abc",
       "cannot be read beyond"},
  };
  for (const BadFile& file : files) {
    EXPECT_NE(read_all(file.content).find(file.reason), std::string::npos)
        << file.name << ": " << read_all(file.content);
  }
}

// A frame's RLE code: the table of segments, then what they hold.
std::string rle(std::uint32_t segments, std::vector<std::uint32_t> begins,
                const std::string& content) {
  std::string code = little(segments, 4);
  begins.resize(15);
  for (const std::uint32_t begin : begins) code += little(begin, 4);
  return code + content;
}

TEST(Dicom, SegmentsOfRleLieWithinTheirFrame) {
  const std::string runs(
      "\x02"
      "abc"
      "\xFE"
      "d",
      6);  // abc, then d three times: 3×2 pixels
  const auto read = [](const std::string& code) {
    return read_all(fragments({.syntax = "1.2.840.10008.1.2.5"}, {code, code}));
  };
  EXPECT_EQ(read(rle(1, {64}, runs)), "");
  for (const std::string& code :
       {rle(0, {64}, runs), rle(16, {64}, runs), rle(1, {0}, runs), rle(1, {63}, runs),
        rle(1, {70}, runs), rle(1, {0xFFFFFFF0}, runs), rle(2, {64, 64}, runs),
        rle(2, {68, 64}, runs), rle(2, {64, 0x7FFFFFFF}, runs), rle(1, {64}, runs).substr(0, 62)})
    EXPECT_NE(read(code).find("do not lie in its"), std::string::npos) << read(code);
}

std::vector<std::string> seeds() {
  std::vector<std::string> contents{
      native({}), fragments({.syntax = kJpegLossless}, {"ab", "cd"}),
      native({.extra = element(0x28, 0x1050, "DS", "3") + element(0x28, 0x1051, "DS", "5")})};
  const std::filesystem::path folder = std::filesystem::path(COLDFRAME_SHARED) / "data/dicom";
  if (!std::filesystem::exists(folder)) return contents;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file() || entry.file_size() > 150'000) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    contents.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  }
  return contents;
}

TEST(Dicom, DamageIsReadOrRefusedButDoesNoHarm) {
  std::mt19937 random(5);
  int refused = 0, tried = 0;
  for (const std::string& seed : seeds()) {
    for (int round = 0; round < 40; ++round) {
      std::string content = seed;
      for (int flips = static_cast<int>(random() % 8); flips >= 0; --flips) {
        // Half of the flips in the header, where they do most.
        const std::size_t reach =
            random() % 2 == 0 ? std::min<std::size_t>(3000, content.size()) : content.size();
        content[random() % reach] ^= static_cast<char>(1 + random() % 255);
      }
      if (round % 4 == 0) content.resize(random() % content.size());
      refused += read_all(content).empty() ? 0 : 1;
      ++tried;
    }
  }
  EXPECT_GT(refused, tried / 8);
}

std::string order_of(std::vector<SeriesKeys> keys, std::vector<double>& times) {
  std::vector<ExamItem> items(keys.size());
  for (std::size_t i = 0; i < items.size(); ++i) items[i].name = static_cast<char>('a' + i);
  order_series(items, keys, true);
  std::string names;
  times.clear();
  for (const ExamItem& item : items) {
    names += item.name;
    times.push_back(item.time_s);
  }
  return names;
}

TEST(DicomSeries, FilesAreOrderedByWhatTellsThemApart) {
  const double no = std::nan("");
  std::vector<double> times;
  // A volume: by position, whenever its slices were acquired.
  EXPECT_EQ(order_of({{"1", 3, 20, 1}, {"1", 1, 0, 2}, {"1", 2, 10, 3}}, times), "bca");
  EXPECT_TRUE(std::isnan(times[0]));
  // Two volumes one after the other: by time, then position.
  EXPECT_EQ(
      order_of({{"1", 105, 9, 1}, {"1", 100, 9, 2}, {"1", 105, 1, 3}, {"1", 100, 1, 4}}, times),
      "dbca");
  EXPECT_EQ(times, (std::vector<double>{0, 0, 5, 5}));
  // Slices of which one was sent twice under two names: when they were computed does not count.
  EXPECT_EQ(
      order_of(
          {{"1", 3, 20, 1, true, false}, {"1", 1, 0, 2, true, false}, {"1", 2, 20, 3, true, false}},
          times),
      "bac");
  EXPECT_TRUE(std::isnan(times[2]));
  // Projections: by time; by instance number where the time is unknown or the same.
  EXPECT_EQ(order_of({{"1", 7.5, no, 1}, {"1", 7, no, 2}}, times), "ba");
  EXPECT_EQ(times, (std::vector<double>{0, 0.5}));
  EXPECT_EQ(order_of({{"1", 7, no, 2}, {"1", 7, no, 1}}, times), "ba");
  EXPECT_TRUE(std::isnan(times[1]));
  EXPECT_EQ(order_of({{"1", no, no, 2}, {"1", 7, no, 1}}, times), "ba");
  // Files stay as they came, where nothing tells.
  EXPECT_EQ(order_of({{"1", no, no, no}, {"1", no, no, 1}}, times), "ab");
}

}  // namespace
}  // namespace coldframe::frames::dicom
