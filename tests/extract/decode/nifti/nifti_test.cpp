// Percentiles in bounded memory, orientations, and volumes made byte by byte.
#include <gtest/gtest.h>
#include <nifti1.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "common/cli/error.h"
#include "extract/decode/exam_spec.h"
#include "extract/decode/nifti/nifti_header.h"
#include "extract/decode/source_file.h"
#include "extract/decode/window.h"
#include "extract/input/select_frames.h"
#include "tests/extract/decode/read_exam.h"
#include "tests/support/temporary_folder.h"

namespace coldframe::frames {
namespace {

using coldframe::testing::message_of;

Window percent(double low, double high) {
  Window window;
  window.kind = Window::Kind::kPercentiles;
  window.low = low, window.high = high;
  return window;
}

TEST(Percentiles, AreThoseOfTheSortedValuesForEveryKind) {
  std::mt19937_64 random(5);
  const DType types[] = {DType::kInt16, DType::kInt32, DType::kFp32, DType::kFp64};
  for (const DType type : types) {
    std::vector<double> values(1001);  // whole percents and halves of them are ranks
    for (double& value : values) {
      const auto bits = static_cast<std::int64_t>(random());
      switch (type) {
        case DType::kInt16:
          value = static_cast<double>(bits % 50000 - (bits % 2 == 0 ? 0 : 15000));
          value = std::max(value, -32768.0);
          break;
        case DType::kInt32:
          value = static_cast<double>(static_cast<std::int32_t>(bits));
          break;
        case DType::kFp32:
          value = static_cast<double>(static_cast<float>(bits) * 1e-12f);
          break;
        default:
          value = static_cast<double>(bits) * 1e-15;
      }
    }
    const ValuePass pass = [&](const ValueBlock& visit) {
      visit(std::span(values).first(400));
      visit(std::span(values).subspan(400));
    };
    std::vector<double> sorted = values;
    std::sort(sorted.begin(), sorted.end());
    const auto range = percentile_range(pass, type, {}, percent(10, 50));
    ASSERT_TRUE(range);
    EXPECT_EQ(range->low, sorted[100]) << dtype_name(type);
    EXPECT_EQ(range->high, sorted[500]) << dtype_name(type);
    const auto negative = percentile_range(pass, type, {-2, 1}, percent(0, 100));
    EXPECT_EQ(negative->low, -2 * sorted.back() + 1);
    EXPECT_EQ(negative->high, -2 * sorted.front() + 1);
  }
}

TEST(Percentiles, PassOverWhatIsNoFiniteNumber) {
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  std::vector<double> values{nan, 3, -inf, 5, inf};
  const ValuePass pass = [&](const ValueBlock& visit) { visit(values); };
  const auto range = percentile_range(pass, DType::kFp64, {}, percent(0, 50));
  EXPECT_EQ(range->low, 3);
  EXPECT_EQ(range->high, 4);
  values = {nan};
  EXPECT_FALSE(percentile_range(pass, DType::kFp32, {}, percent(0, 50)));
}

TEST(Orientation, TakesEachAxisOnceAndTheStrongestFirst) {
  const Matrix3 left_posterior{{{{0, 0, -3}}, {{-2, 0, 0}}, {{0, 1, 0}}}};
  const Orientation expected{FileAxis{2, true}, FileAxis{0, true}, FileAxis{1, false}};
  EXPECT_EQ(closest_ras(left_posterior), expected);
  const Matrix3 flat{{{{1, 2, 0}}, {{2, 4, 0}}, {{0, 0, 1}}}};
  EXPECT_NE(message_of<DataError>([&] { closest_ras(flat); }).find("singular"), std::string::npos);
}

// 2 × 1 × 1 voxels of uint8: 10 and 20.
std::string tiny_volume(const char* magic) {
  nifti_1_header header{};
  header.sizeof_hdr = 348;
  const short dims[8] = {3, 2, 1, 1, 1, 1, 1, 1};
  std::copy(std::begin(dims), std::end(dims), header.dim);
  header.datatype = NIFTI_TYPE_UINT8;
  header.bitpix = 8;
  header.vox_offset = 352;
  header.sform_code = 1;
  header.srow_x[0] = header.srow_y[1] = header.srow_z[2] = 1;
  header.cal_max = 255;
  std::memcpy(header.magic, magic, 4);
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  return bytes + std::string(4, '\0') + "\x0a\x14";
}

// 2 × 1 voxels for each slice, of a type without a window of its own.
template <typename T>
std::string volume_of(const std::vector<T>& values, short datatype, float slope) {
  nifti_1_header header{};
  const std::string start = tiny_volume("n+1");
  std::memcpy(&header, start.data(), sizeof header);
  header.dim[3] = static_cast<short>(values.size() / 2);
  header.datatype = datatype;
  header.bitpix = 8 * sizeof(T);
  header.scl_slope = slope;
  header.cal_max = 0;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof header);
  bytes += std::string(4, '\0');
  return bytes +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

ExamSpec exam_of(const std::vector<std::filesystem::path>& files) {
  ExamSpec exam;
  exam.id = "visits";
  for (const auto& file : files) {
    exam.items.emplace_back().path = file;
    exam.items.back().name = file.filename();
  }
  return exam;
}

std::vector<ExamSlot> slots_of(const ExamSpec& exam, const ReaderOptions& options) {
  std::vector<ExamSlot> slots;
  read_exam(exam, {}, options, [&](ExamSlot&& slot) {
    slots.push_back(std::move(slot));
    return true;
  });
  return slots;
}

const ReaderOptions kFullRange = [] {
  ReaderOptions options;
  options.window = percent(0, 100);
  return options;
}();

TEST(Nifti, TheFilesOfAnExamShareTheirPercentiles) {
  const coldframe::testing::TemporaryFolder folder;
  const ExamSpec exam =
      exam_of({folder.write("1.nii", volume_of<float>({0, 100}, NIFTI_TYPE_FLOAT32, 1)),
               folder.write("2.nii", volume_of<std::int16_t>({50, 500}, NIFTI_TYPE_INT16, 2))});
  const auto slots = slots_of(exam, kFullRange);
  ASSERT_EQ(slots.size(), 2u);
  const auto& before = slots[0].frame.pixels.rgb;
  const auto& after = slots[1].frame.pixels.rgb;
  EXPECT_EQ((std::vector<int>{before[0], before[3], after[0], after[3]}),
            (std::vector<int>{0, 26, 26, 255}));
  // The header states nothing: percentiles 0.5 to 99.5 of both files, not the least to the
  // greatest.
  const auto usual = slots_of(exam, {});
  EXPECT_EQ(usual[0].frame.pixels.rgb[3], usual[1].frame.pixels.rgb[0]);
  EXPECT_EQ(usual[0].frame.pixels.rgb[3], 26);
}

TEST(Nifti, SlicesWithoutAnyNumberAreLostAndOthersAreShown) {
  const coldframe::testing::TemporaryFolder folder;
  const float nan = std::nanf(""), inf = std::numeric_limits<float>::infinity();
  const ExamSpec exam = exam_of({folder.write(
      "masked.nii", volume_of<float>({nan, -inf, nan, 7, 3, 9, nan, nan}, NIFTI_TYPE_FLOAT32, 1))});
  const auto slots = slots_of(exam, kFullRange);
  ASSERT_EQ(slots.size(), 4u);
  for (const std::size_t lost : {0u, 3u}) {
    EXPECT_FALSE(slots[lost].present);
    EXPECT_EQ(slots[lost].fault,
              "'masked.nii': none of the values is a finite number (all are NaN or infinite)");
  }
  EXPECT_TRUE(slots[1].is_partly_finite());
  EXPECT_EQ(slots[1].frame.pixels.rgb[0], 0);
  EXPECT_EQ(slots[1].frame.finite, 0.5);
  EXPECT_TRUE(slots[2].present);
  EXPECT_FALSE(slots[2].is_partly_finite());
}

TEST(Nifti, IsRefusedWithItsName) {
  const coldframe::testing::TemporaryFolder folder;
  const auto refusal = [&](const std::string& content) {
    const auto path = folder.write("tiny.hdr", content);
    return message_of<DataError>([&] { open_by("nifti", path, {}); });
  };
  EXPECT_NE(refusal(tiny_volume("ni1")).find("tiny.hdr': its voxels are in a file of the same"),
            std::string::npos);
  EXPECT_NE(refusal("text").find("first 4 bytes"), std::string::npos);
}

TEST(Pairs, OfWhichTheVoxelsChangeAreOtherSources) {
  for (const char* suffix : {".img", ".img.gz"}) {
    const coldframe::testing::TemporaryFolder folder;
    ExamSpec exam;
    exam.items.emplace_back().path = folder.write("scan.hdr", "header");
    const std::string alone = source_digest(exam), stamp_alone = source_stamp(exam);
    folder.write(std::string("scan") + suffix, "voxels");
    const std::string digest = source_digest(exam), stamp = source_stamp(exam);
    EXPECT_NE(digest, alone);
    EXPECT_NE(stamp, stamp_alone);
    folder.write(std::string("scan") + suffix, "changed voxels");
    EXPECT_NE(source_digest(exam), digest);
    EXPECT_NE(source_stamp(exam), stamp);
  }
}

}  // namespace
}  // namespace coldframe::frames
