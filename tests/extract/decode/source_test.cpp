// The contract of every reader of files (source.h), on a small file of each kind and of each still
// format. A new reader, or a new still format, joins by a row of made_files().
#include "extract/decode/source.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <opencv2/imgcodecs.hpp>
#include <opencv2/imgproc.hpp>
#include <random>
#include <set>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "tests/extract/decode/read_exam.h"
#include "tests/support/dicom_bytes.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::element, coldframe::testing::little, coldframe::testing::TemporaryFolder;

constexpr int kColumns = 48, kRows = 32;

// Frame `t` of `frames`, which together span from black to white; 8 bits, grey.
cv::Mat picture(int t, int frames) {
  cv::Mat grey(kRows, kColumns, CV_8UC1);
  for (int y = 0; y < kRows; ++y)
    for (int x = 0; x < kColumns; ++x)
      grey.at<std::uint8_t>(y, x) = static_cast<std::uint8_t>(10 + 60 * t + x + y);
  if (t == 0) grey.at<std::uint8_t>(0, 0) = 0;
  if (t + 1 == frames) grey.at<std::uint8_t>(kRows - 1, kColumns - 1) = 255;
  return grey;
}

std::string still(const char* suffix, const std::vector<int>& parameters = {}, int type = CV_8UC3) {
  cv::Mat image = picture(0, 1);
  if (type == CV_8UC3) cv::cvtColor(image, image, cv::COLOR_GRAY2BGR);
  if (type == CV_16UC1) image.convertTo(image, CV_16U, 257);
  std::vector<unsigned char> bytes;
  EXPECT_TRUE(cv::imencode(suffix, image, bytes, parameters)) << suffix;
  return {bytes.begin(), bytes.end()};
}

std::string tiff_stack() {
  const TemporaryFolder folder;
  const std::string path = folder / "stack.tif";
  EXPECT_TRUE(cv::imwritemulti(path, std::vector{picture(0, 3), picture(1, 3), picture(2, 3)}));
  return folder.read("stack.tif");
}

// The values of a picture, one after the other.
template <typename Number>
std::string numbers(int t, int frames) {
  const cv::Mat grey = picture(t, frames);
  std::string bytes(grey.total() * sizeof(Number), '\0');
  for (std::size_t i = 0; i < grey.total(); ++i) {
    const auto value = static_cast<Number>(grey.data[i]);
    std::memcpy(bytes.data() + i * sizeof(Number), &value, sizeof(Number));
  }
  return bytes;
}

template <typename Number>
std::string npy(const char* type) {
  std::string header = concat("{'descr': '", type, "', 'fortran_order': False, 'shape': (3, ",
                              kRows, ", ", kColumns, "), }");
  header.resize(128 - 10 - 1, ' ');
  std::string bytes = "\x93NUMPY" + little(1, 2).substr(0, 1) + std::string(1, '\0') +
                      little(header.size() + 1, 2) + header + '\n';
  for (int t = 0; t < 3; ++t) bytes += numbers<Number>(t, 3);
  return bytes;
}

// Codes of 8 bits and no compression: the table of codes is cleared before it needs more.
std::string gif() {
  constexpr std::size_t kCodesAtOnce = 100;
  std::string bytes = "GIF89a" + little(kColumns, 2) + little(kRows, 2) + "\xF6" + little(0, 2);
  for (int level = 0; level < 128; ++level) bytes += std::string(3, static_cast<char>(2 * level));
  for (int t = 0; t < 3; ++t) {
    std::string codes;
    const cv::Mat grey = picture(t, 3);
    for (std::size_t i = 0; i < grey.total(); ++i) {
      if (i % kCodesAtOnce == 0) codes += '\x80';
      codes += static_cast<char>(grey.data[i] / 2);
    }
    codes += '\x81';
    bytes += "\x21\xF9\x04" + little(0, 1) + little(10, 2) + little(0, 2);  // 0.1 s
    bytes += "\x2C" + little(0, 4) + little(kColumns, 2) + little(kRows, 2) + little(0, 1) + "\x07";
    for (std::size_t at = 0; at < codes.size(); at += 255) {
      const std::string block = codes.substr(at, 255);
      bytes += static_cast<char>(block.size()) + block;
    }
    bytes += '\0';
  }
  return bytes + ";";
}

std::string nifti() {
  std::string header(352, '\0');
  const auto put = [&](std::size_t at, const std::string& bytes) {
    header.replace(at, bytes.size(), bytes);
  };
  const auto number = [](float value) {
    return std::string(reinterpret_cast<const char*>(&value), sizeof value);
  };
  put(0, little(348, 4));
  put(40, little(3, 2) + little(kColumns, 2) + little(kRows, 2) + little(3, 2) + little(1, 2));
  put(70, little(2, 2) + little(8, 2));      // uint8
  put(108, number(352) + number(1));         // the voxels' offset, their slope
  put(124, number(255));                     // cal_max
  put(254, little(1, 2));                    // sform_code
  put(280, number(1));                       // srow_x
  put(300, number(1)), put(320, number(1));  // srow_y, srow_z
  put(344, std::string("n+1\0", 4));
  return header + numbers<std::uint8_t>(0, 3) + numbers<std::uint8_t>(1, 3) +
         numbers<std::uint8_t>(2, 3);
}

std::string dicom() {
  const auto us = [](unsigned number, unsigned value) {
    return element(0x28, number, "US", little(value, 2));
  };
  return std::string(128, '\0') + "DICM" + element(2, 0x10, "UI", "1.2.840.10008.1.2.1") +
         us(2, 1) + element(0x28, 4, "CS", "MONOCHROME2") + element(0x28, 8, "IS", "3") +
         us(0x10, kRows) + us(0x11, kColumns) + us(0x100, 8) + us(0x101, 8) + us(0x102, 7) +
         us(0x103, 0) +
         element(0x7FE0, 0x10, "OB",
                 numbers<std::uint8_t>(0, 3) + numbers<std::uint8_t>(1, 3) +
                     numbers<std::uint8_t>(2, 3));
}

struct MadeFile {
  const char* name;
  const char* kind;      // SourceKind::name
  const char* suffixes;  // of such files; the first one is taken
  int frames;
  std::string content;
  bool upside_down = false;  // as volumes are shown

  std::string file_name() const {
    return "made" + std::string(suffixes, std::strcspn(suffixes, " "));
  }
};

void PrintTo(const MadeFile& file, std::ostream* out) {
  *out << file.name;
}

std::vector<MadeFile> made_files() {
  return {
      {"Jpeg", "image", ".jpg .jpeg", 1, still(".jpg", {cv::IMWRITE_JPEG_QUALITY, 98})},
      {"ProgressiveJpeg", "image", ".jpg", 1,
       still(".jpg", {cv::IMWRITE_JPEG_QUALITY, 98, cv::IMWRITE_JPEG_PROGRESSIVE, 1})},
      {"Png", "image", ".png", 1, still(".png")},
      {"DeepPng", "image", ".png", 1, still(".png", {}, CV_16UC1)},
      {"Jpeg2000", "image", ".jp2 .j2k .j2c", 1, still(".jp2")},
      {"DeepJpeg2000", "image", ".jp2", 1, still(".jp2", {}, CV_16UC1)},
      {"WebP", "image", ".webp", 1, still(".webp", {cv::IMWRITE_WEBP_QUALITY, 101})},
      {"Ppm", "image", ".ppm .pnm", 1, still(".ppm")},
      {"PgmInText", "image", ".pgm", 1, still(".pgm", {cv::IMWRITE_PXM_BINARY, 0}, CV_8UC1)},
      {"DeepPgm", "image", ".pgm", 1, still(".pgm", {}, CV_16UC1)},
      {"Bmp", "image", ".bmp", 1, still(".bmp")},
      {"TiffPage", "image", ".tif .tiff", 1, still(".tif")},
      {"TiffStack", "stack", ".tif", 3, tiff_stack()},
      {"Npy", "npy", ".npy", 3, npy<std::uint8_t>("|u1")},
      {"FloatNpy", "npy", ".npy", 3, npy<float>("<f4")},
      {"Gif", "video", ".gif", 3, gif()},
      {"Nifti", "nifti", ".nii", 3, nifti(), true},
      {"Dicom", "dicom", ".dcm", 3, dicom()},
  };
}

// A file read as an exam by itself. Its window is fixed: that of a damaged file is not the whole
// one's where it depends on the values.
struct Reading {
  std::vector<ExamSlot> slots;
  std::string error;  // of the whole file

  std::size_t present() const {
    return static_cast<std::size_t>(std::ranges::count(slots, true, &ExamSlot::present));
  }
  // All that is said of what is missing.
  std::vector<std::string> faults() const {
    std::vector<std::string> said;
    if (!error.empty()) said.push_back(error);
    for (const ExamSlot& slot : slots)
      if (!slot.fault.empty()) said.push_back(slot.fault);
    return said;
  }
};

Reading reading_of(const std::filesystem::path& path) {
  ExamSpec exam;
  exam.id = "exam";
  exam.items.emplace_back().path = path;
  exam.items.back().name = path.filename();
  ReaderOptions options;
  options.window = parse_window("127.5,255");
  Reading reading;
  try {
    read_exam(exam, {}, options, [&](ExamSlot&& slot) {
      reading.slots.push_back(std::move(slot));
      return true;
    });
  } catch (const DataError& error) {
    reading.error = error.what();
  }
  return reading;
}

std::vector<std::int64_t> all_of(Source& source) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(source.frame_count()));
  std::iota(indices.begin(), indices.end(), 0);
  return indices;
}

void settle_range(Source& source) {
  if (!source.wants_range() || source.finds_range_alone()) return;
  ValueSurvey survey;
  source.survey(survey);
  source.set_range(survey.range(source.range_window({})));
  EXPECT_FALSE(source.wants_range());
}

std::vector<Frame> frames_of(Source& source, std::span<const std::int64_t> indices) {
  std::vector<Frame> frames;
  source.read(indices, [&](Frame&& frame) { frames.push_back(std::move(frame)); });
  return frames;
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(open), end(open)));
}

class EverySource : public ::testing::TestWithParam<MadeFile> {
 protected:
  std::filesystem::path write(const std::string& content) const {
    return folder_.write(GetParam().file_name(), content);
  }

  const TemporaryFolder folder_;
  const std::filesystem::path path_ = write(GetParam().content);
};

TEST_P(EverySource, IsFoundByItsContent) {
  const SourceKind* kind = detect_kind(SourceFile(folder_.write("file", GetParam().content)));
  ASSERT_NE(kind, nullptr);
  EXPECT_STREQ(kind->name, GetParam().kind);
}

TEST_P(EverySource, GivesItsFramesInOrder) {
  const SourceFile file(path_);
  const auto source = require_kind(file).open(file, {});
  ASSERT_EQ(source->frame_count(), GetParam().frames);
  settle_range(*source);
  const std::vector<Frame> frames = frames_of(*source, all_of(*source));
  ASSERT_EQ(frames.size(), static_cast<std::size_t>(GetParam().frames));
  for (int t = 0; t < GetParam().frames; ++t) {
    const Frame& frame = frames[static_cast<std::size_t>(t)];
    EXPECT_EQ(frame.index, t);
    const double time_s = source->time_s(t);
    EXPECT_TRUE(frame.time_s == time_s || (std::isnan(frame.time_s) && std::isnan(time_s)));
    EXPECT_FALSE(t > 0 && time_s <= source->time_s(t - 1));
    EXPECT_EQ(frame.finite, 1);
    EXPECT_EQ(frame.fault, "");
    ASSERT_EQ(frame.pixels.width, kColumns);
    ASSERT_EQ(frame.pixels.rgb.size(), std::size_t{3} * kColumns * kRows);
    cv::Mat expected = picture(t, GetParam().frames);
    if (GetParam().upside_down) cv::flip(expected, expected, 0);
    for (std::size_t i = 0; i < expected.total(); ++i)
      for (std::size_t channel = 0; channel < 3; ++channel)
        ASSERT_NEAR(frame.pixels.rgb[3 * i + channel], expected.data[i], 6) << t << ' ' << i;
  }
  EXPECT_EQ(source->lost_tail(), "");
}

TEST_P(EverySource, GivesTheSameFramesAgainAndAnySelectionOfThem) {
  const auto opened = [&] {
    const SourceFile file(path_);
    auto source = require_kind(file).open(file, {});
    source->frame_count();
    settle_range(*source);
    return source;
  };
  const auto source = opened(), other = opened();
  const std::vector<std::int64_t> all = all_of(*source);
  const std::vector<Frame> frames = frames_of(*source, all);
  const auto expect_same = [&](Source& from, const std::vector<std::int64_t>& indices) {
    const std::vector<Frame> again = frames_of(from, indices);
    ASSERT_EQ(again.size(), indices.size());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      EXPECT_EQ(again[i].index, indices[i]);
      EXPECT_EQ(again[i].pixels.rgb, frames[static_cast<std::size_t>(indices[i])].pixels.rgb);
    }
  };
  expect_same(*source, all);
  expect_same(*other, {all.back()});
  expect_same(*other, {all.front()});
  expect_same(*other, {});
  expect_same(*other, all);
}

TEST_P(EverySource, HoldsNoFileBetweenCalls) {
  const SourceFile file(path_);
  const std::size_t before = open_descriptors();
  const auto source = require_kind(file).open(file, {});
  source->frame_count();
  EXPECT_EQ(open_descriptors(), before);
  settle_range(*source);
  frames_of(*source, all_of(*source));
  EXPECT_EQ(open_descriptors(), before);
}

TEST_P(EverySource, IsDigestedAsItIsRead) {
  ExamSpec exam;
  exam.items.emplace_back().path = path_;
  SourceDigest digest(exam);
  digest.turn_to(path_);
  const SourceFile file(path_, &digest);
  const auto source = require_kind(file).open(file, {});
  settle_range(*source);
  frames_of(*source, all_of(*source));
  EXPECT_EQ(digest.finish(), source_digest(exam));
}

// What is read of a damaged file is the whole one's, and what is not has one reason, on one line,
// with the file's name in it once.
void expect_part_of(const Reading& whole, const Reading& found, const std::string& file_name,
                    const std::string& context) {
  for (const ExamSlot& slot : found.slots) {
    if (!slot.present) continue;
    const auto index = static_cast<std::size_t>(slot.frame.index);
    ASSERT_LT(index, whole.slots.size()) << context;
    ASSERT_EQ(slot.frame.pixels.rgb, whole.slots[index].frame.pixels.rgb) << context;
  }
  const std::vector<std::string> faults = found.faults();
  EXPECT_FALSE(found.present() < whole.slots.size() && faults.empty()) << context;
  for (const std::string& fault : faults) {
    EXPECT_EQ(fault.find('\n'), std::string::npos) << fault;
    const std::size_t named = fault.find(file_name);
    EXPECT_NE(named, std::string::npos) << context << ": " << fault;
    EXPECT_EQ(fault.find(file_name, named + 1), std::string::npos) << context << ": " << fault;
  }
}

TEST_P(EverySource, OfATruncatedFileGivesWholeFramesAndOneReason) {
  const Reading whole = reading_of(path_);
  const std::string& content = GetParam().content;
  ASSERT_EQ(whole.present(), static_cast<std::size_t>(GetParam().frames)) << whole.error;
  const std::size_t step = std::max<std::size_t>(1, content.size() / 300);
  for (std::size_t length = 0; length < content.size(); length += step) {
    const Reading found = reading_of(write(content.substr(0, length)));
    expect_part_of(whole, found, GetParam().file_name(), concat("cut at ", length));
    if (HasFatalFailure()) return;
    EXPECT_FALSE(length < content.size() / 8 && found.present() == whole.slots.size()) << length;
  }
}

TEST_P(EverySource, LosesNoOtherFrameWithTheLastByte) {
  const std::string& content = GetParam().content;
  const Reading found = reading_of(write(content.substr(0, content.size() - 1)));
  EXPECT_GE(found.present() + 1, static_cast<std::size_t>(GetParam().frames)) << found.error;
}

TEST_P(EverySource, OfDamagedBytesGivesFramesOrReasons) {
  constexpr std::size_t kHeadBytes = 400;  // where damage does most
  std::mt19937 random(7);
  const auto flip = [&](std::string& content, std::size_t at) {
    if (at < content.size()) content[at] ^= static_cast<char>(1 + random() % 255);
  };
  for (std::size_t round = 0; round < 200; ++round) {
    std::string content = GetParam().content;
    flip(content, 3 * round < kHeadBytes ? 3 * round : random() % content.size());
    if (3 * round >= kHeadBytes) flip(content, random() % content.size());
    const Reading found = reading_of(write(content));
    EXPECT_TRUE(found.present() > 0 || !found.faults().empty()) << round;
    for (const ExamSlot& slot : found.slots) {
      const Image& pixels = slot.frame.pixels;
      EXPECT_EQ(pixels.rgb.size(), std::size_t{3} * static_cast<unsigned>(pixels.width) *
                                       static_cast<unsigned>(pixels.height));
      EXPECT_EQ(slot.present, slot.fault.empty());
    }
  }
}

TEST_P(EverySource, NamesTheFileThatIsNotThere) {
  std::filesystem::remove(path_);
  const Reading found = reading_of(path_);
  EXPECT_NE(found.error.find(path_.string()), std::string::npos) << found.error;
  EXPECT_NE(found.error.find("No such file"), std::string::npos) << found.error;
}

INSTANTIATE_TEST_SUITE_P(All, EverySource, ::testing::ValuesIn(made_files()),
                         [](const auto& given) { return std::string(given.param.name); });

TEST(Sources, EachKindAndEachSuffixOfImagesHasARowAbove) {
  const std::vector<MadeFile> files = made_files();
  const TemporaryFolder folder;
  std::set<const SourceKind*> kinds;
  std::string suffixes = " ";
  for (const MadeFile& file : files) {
    kinds.insert(detect_kind(SourceFile(folder.write(file.name, file.content))));
    suffixes += std::string(file.suffixes) + ' ';
  }
  for (const SourceKind* kind : source_kinds()) {
    EXPECT_TRUE(kinds.contains(kind)) << kind->contents;
    if (kind->is_clip) continue;
    for (const std::string& suffix : split(kind->suffixes, ' '))
      EXPECT_NE(suffixes.find(" " + suffix + ' '), std::string::npos) << suffix;
  }
}

}  // namespace
}  // namespace coldframe::frames
