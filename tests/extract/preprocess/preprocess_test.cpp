#include <gtest/gtest.h>

#include <random>

#include "common/cli/error.h"
#include "extract/preprocess/preprocessing.h"
#include "extract/preprocess/resample/resample_passes.h"

namespace coldframe::preprocess {
namespace {

frames::Image noise(int width, int height) {
  std::mt19937 random(static_cast<unsigned>(width * 1000 + height));
  frames::Image image{width, height, {}};
  image.rgb.resize(static_cast<std::size_t>(width) * static_cast<std::size_t>(height) * 3);
  for (auto& value : image.rgb) value = static_cast<std::uint8_t>(random());
  return image;
}

Preprocessing imagenet(int size, Resize resize, double crop_pct) {
  return {size,
          resize,
          crop_pct,
          Interpolation::kBicubic,
          Resampler::kPillow,
          {0.485f, 0.456f, 0.406f},
          {0.229f, 0.224f, 0.225f}};
}

struct GeometryCase {
  const char* name;
  Resize resize;
  double crop_pct;
  int width, height;
  std::int64_t scaled_width, scaled_height, left, top;
  int target_x, target_y;
};

class GeometryTest : public ::testing::TestWithParam<GeometryCase> {};

TEST_P(GeometryTest, FollowsTorchvisionAndTimm) {
  const auto& expected = GetParam();
  const auto plan = plan_geometry(imagenet(224, expected.resize, expected.crop_pct), expected.width,
                                  expected.height);
  EXPECT_EQ(plan.x.scaled, expected.scaled_width);
  EXPECT_EQ(plan.y.scaled, expected.scaled_height);
  EXPECT_EQ(plan.x.offset, expected.left);
  EXPECT_EQ(plan.y.offset, expected.top);
  EXPECT_EQ(plan.x.target, expected.target_x);
  EXPECT_EQ(plan.y.target, expected.target_y);
}

INSTANTIATE_TEST_SUITE_P(
    Sizes, GeometryTest,
    ::testing::Values(
        GeometryCase{"Landscape", Resize::kShortest, 1.0, 640, 480, 298, 224, 37, 0, 0, 0},
        // (331 − 224) / 2 = 53.5 goes to 54, (225 − 224) / 2 = 0.5 to 0: halves to even.
        GeometryCase{"HalfUp", Resize::kShortest, 1.0, 331, 224, 331, 224, 54, 0, 0, 0},
        GeometryCase{"HalfDown", Resize::kShortest, 1.0, 224, 225, 224, 225, 0, 0, 0, 0},
        GeometryCase{"CropPct", Resize::kShortest, 0.9, 500, 500, 248, 248, 12, 12, 0, 0},
        GeometryCase{"Squash", Resize::kSquash, 0.875, 30, 900, 256, 256, 16, 16, 0, 0},
        GeometryCase{"Pad", Resize::kPad, 1.0, 640, 480, 224, 168, 0, 0, 0, 28},
        GeometryCase{"PadOfASliver", Resize::kPad, 1.0, 1, 10000, 1, 224, 0, 0, 111, 0}),
    [](const auto& test) { return test.param.name; });

TEST(Resample, ProcessorSpecificLoopsGiveTheSameBytesAsThePortableOnes) {
  const Passes* fast = avx2_passes();
  if (fast == nullptr) GTEST_SKIP() << "no AVX2 here";
  const Passes& portable = portable_passes();
  for (const Resampler resampler : {Resampler::kPillow, Resampler::kTorch}) {
    for (const int input : {1, 2, 3, 5, 17, 64, 301}) {
      for (const std::int64_t scaled : {1, 7, 33, 224}) {
        const Kernel kernel = make_kernel(Interpolation::kBicubic, resampler,
                                          {input, scaled, 0, 0, static_cast<int>(scaled)});
        auto image = noise(input, 4);
        const std::size_t row = static_cast<std::size_t>(input) * 3;
        image.rgb.resize(image.rgb.size() + kSlackBytes);
        const std::size_t width = static_cast<std::size_t>(scaled) * 3;
        std::vector<std::uint8_t> a((width + kSlackBytes) * 4), b = a;
        std::array<const std::uint8_t*, 4> in;
        std::array<std::uint8_t*, 4> to_a, to_b;
        for (std::size_t i = 0; i < 4; ++i) {
          in[i] = image.rgb.data() + i * row;
          to_a[i] = a.data() + i * (width + kSlackBytes);
          to_b[i] = b.data() + i * (width + kSlackBytes);
        }
        portable.horizontal(kernel, in, to_a);
        fast->horizontal(kernel, in, to_b);
        for (std::size_t i = 0; i < 4; ++i) {
          EXPECT_TRUE(std::equal(to_a[i], to_a[i] + width, to_b[i])) << input << " " << scaled;
        }
        const auto column = noise(25, input);  // 75 bytes a row: two whole blocks and a part
        std::vector<std::uint8_t> padded(static_cast<std::size_t>(input) * 128);
        for (std::size_t y = 0; y < static_cast<std::size_t>(input); ++y) {
          std::copy_n(column.rgb.data() + y * 75, 75, padded.data() + y * 128);
        }
        for (std::size_t y = 0; y < static_cast<std::size_t>(scaled); ++y) {
          const std::uint8_t* from =
              padded.data() + static_cast<std::size_t>(kernel.first[y]) * 128;
          std::vector<std::uint8_t> c(75), d(75);
          portable.vertical(kernel, y, from, 128, 75, c.data());
          fast->vertical(kernel, y, from, 128, 75, d.data());
          EXPECT_EQ(c, d) << input << " " << scaled << " row " << y;
        }
      }
    }
  }
}

TEST(Resize, LeavesAFrameOfTheRightSizeAsItIs) {
  const auto image = noise(64, 64);
  std::vector<std::uint8_t> out(64 * 64 * 3);
  resize_frame(imagenet(64, Resize::kShortest, 1.0), image, out.data());
  EXPECT_EQ(out, image.rgb);
}

TEST(Resize, PadSurroundsWithTheColourThatNormalisesToZero) {
  const auto preprocessing = imagenet(32, Resize::kPad, 1.0);
  std::vector<std::uint8_t> out(32 * 32 * 3);
  resize_frame(preprocessing, noise(64, 32), out.data());
  EXPECT_EQ(out[0], 124);
  EXPECT_EQ(out[1], 116);
  EXPECT_EQ(out[2], 104);
}

TEST(Resize, RefusesFramesWithoutPixels) {
  std::vector<std::uint8_t> out(64 * 64 * 3);
  const auto preprocessing = imagenet(64, Resize::kShortest, 1.0);
  EXPECT_THROW(resize_frame(preprocessing, {}, out.data()), DataError);
  EXPECT_THROW(resize_frame(preprocessing, {4, 4, {1, 2, 3}}, out.data()), DataError);
  EXPECT_THROW(resize_frame(preprocessing, {-1, 4, {}}, out.data()), DataError);
}

TEST(Recipe, KeepsDecimalsAsTheyWereWritten) {
  EXPECT_EQ(to_json(imagenet(224, Resize::kShortest, 0.9)).dump(),
            R"({"image_size":224,"resize":"shortest","crop_pct":0.9,"interpolation":"bicubic",)"
            R"("resampler":"pillow","mean":[0.485,0.456,0.406],"std":[0.229,0.224,0.225]})");
}

}  // namespace
}  // namespace coldframe::preprocess
