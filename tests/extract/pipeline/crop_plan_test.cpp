// --crop auto on exams whose files state where their image lies (DICOM ultrasound regions, PS3.3
// C.8.5.5), or do not.
#include "extract/pipeline/crop_plan.h"
#include "extract/decode/exam_spec.h"
#include "extract/input/select_frames.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/support/dicom_bytes.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::extract {
namespace {

using frames::Rect;

constexpr int kWidth = 64, kHeight = 48;

using testing::element, testing::little;

// Columns `left` to `right`, inclusive, of all rows.
std::string regions(unsigned left, unsigned right) {
  const auto us = [](unsigned number, unsigned value) {
    return element(0x18, number, "US", little(value, 2));
  };
  const auto ul = [](unsigned number, unsigned value) {
    return element(0x18, number, "UL", little(value, 4));
  };
  const std::string item = us(0x6012, 1) + us(0x6014, 1) + ul(0x6018, left) + ul(0x601A, 0) +
                           ul(0x601C, right) + ul(0x601E, kHeight - 1);
  return element(0x18, 0x6011, "SQ", little(0xE000FFFE, 4) + little(item.size(), 4) + item);
}

// Grey noise in columns 8 to 55 on black.
std::string dicom(const std::string& more) {
  const auto us = [](unsigned number, unsigned value) {
    return element(0x28, number, "US", little(value, 2));
  };
  std::string pixels;
  for (int i = 0; i < kWidth * kHeight; ++i) {
    const bool lit = i % kWidth >= 8 && i % kWidth < 56;
    pixels += static_cast<char>(lit ? 100 + i * 37 % 101 : 0);
  }
  return std::string(128, '\0') + "DICM" + element(2, 0x10, "UI", "1.2.840.10008.1.2.1") + more +
         us(2, 1) + element(0x28, 4, "CS", "MONOCHROME2") + us(0x10, kHeight) + us(0x11, kWidth) +
         us(0x100, 8) + us(0x101, 8) + us(0x102, 7) + us(0x103, 0) +
         element(0x7FE0, 0x10, "OB", pixels);
}

// Tells what each file's frame is cut to.
std::map<std::string, Rect> crops(const std::map<std::string, std::string>& files) {
  const testing::TemporaryFolder folder;
  frames::ExamSpec exam;
  for (const auto& [name, content] : files) {
    exam.items.emplace_back();
    exam.items.back().path = folder.write(name, content);
  }
  preprocess::Preprocessing preprocessing;
  preprocessing.crop.kind = frames::CropRule::Kind::kAuto;
  const frames::ReaderOptions options;
  const frames::OpenedExam opened(exam, options);
  const CropPlan plan(exam, opened, preprocessing);
  std::map<std::string, Rect> found;
  for (const auto& [name, content] : files) folder.write(name, "looked at already");
  opened.read(opened.select({}), [&](frames::ExamSlot&& slot) {
    EXPECT_TRUE(slot.present) << slot.fault;
    found[exam.items[slot.item].path.filename()] = plan.crop_of(slot).value();
    return true;
  });
  return found;
}

TEST(CropPlan, TakesTheRegionThatEachFileStates) {
  const std::string a = dicom(regions(0, 19)), b = dicom(regions(40, 59)), plain = dicom("");
  const Rect of_a{0, 0, 20, kHeight}, of_b{40, 0, 20, kHeight}, lit{8, 0, 48, kHeight};
  using Crops = std::map<std::string, Rect>;
  EXPECT_EQ(crops({{"a", a}}), (Crops{{"a", of_a}}));
  EXPECT_EQ(crops({{"a", a}, {"b", b}}), (Crops{{"a", of_a}, {"b", of_b}}));
  EXPECT_EQ(crops({{"p", plain}}), (Crops{{"p", lit}}));
  EXPECT_EQ(crops({{"a", a}, {"p", plain}}), (Crops{{"a", of_a}, {"p", lit}}));
  EXPECT_EQ(crops({{"p", plain}, {"z", b}}), (Crops{{"p", lit}, {"z", of_b}}));
}

TEST(CropPlan, CutsARegionAtTheFramesBorders) {
  const auto found = crops({{"a", dicom(regions(40, 1000))}});
  EXPECT_EQ(found.at("a"), (Rect{40, 0, 24, kHeight}));
}

}  // namespace
}  // namespace coldframe::extract
