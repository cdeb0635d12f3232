#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/error.h"
#include "common/text.h"
#include "extract/options.h"

namespace coldframe {
namespace {

std::vector<std::string> words(const std::string& line) {
  return split(line, ' ');
}

const std::string kRandom =
    "--input a --out b --random-weights 0 --architecture vit_tiny_patch16_224 ";

TEST(ExtractOptions, PresetFillsAndOptionsOverride) {
  const auto options =
      parse_extract_options(words("--input a --out b.h5 --preset augreg-vits16 --weights w "
                                  "--interpolation bilinear --frames 12 --std 0.25"));
  ASSERT_TRUE(options);
  EXPECT_EQ(options->backbone.architecture, "vit_small_patch16_224");
  EXPECT_NEAR(options->preprocessing.crop_pct, 0.9, 1e-12);
  EXPECT_EQ(options->preprocessing.interpolation, preprocess::Interpolation::kBilinear);
  EXPECT_EQ(options->preprocessing.mean, (std::array{0.5f, 0.5f, 0.5f}));
  EXPECT_EQ(options->preprocessing.std, (std::array{0.25f, 0.25f, 0.25f}));
  EXPECT_EQ(options->frames, 12);
}

TEST(ExtractOptions, ThreeChannelConstants) {
  const auto options =
      parse_extract_options(words(kRandom + "--pool mean --mean 0.1,0.2,0.3 --std 1"));
  EXPECT_EQ(options->preprocessing.mean, (std::array{0.1f, 0.2f, 0.3f}));
}

struct BadLine {
  std::string line, message;
  friend void PrintTo(const BadLine& bad, std::ostream* out) { *out << bad.line; }
};

class BadOptions : public ::testing::TestWithParam<BadLine> {};

TEST_P(BadOptions, AreRefusedByName) {
  try {
    parse_extract_options(words(GetParam().line));
    FAIL() << "accepted: " << GetParam().line;
  } catch (const ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr(GetParam().message));
  }
}

INSTANTIATE_TEST_SUITE_P(
    Table, BadOptions,
    ::testing::Values(
        BadLine{"--out b --random-weights 0", "--input"},
        BadLine{"--input a --random-weights 0", "--out"},
        BadLine{"--input a --out b", "no backbone is named"},
        BadLine{"--input a --out b --weights w --random-weights 1", "more than one backbone"},
        BadLine{"--input a --out b --weights w --pool cls", "--mean, --std must be given"},
        BadLine{"--input a --out b --weights w --mean 0 --std 1", "--pool must be given"},
        BadLine{"--input a --out b --random-weights 0 --pool cls --mean 0 --std 1",
                "--architecture"},
        BadLine{kRandom + "--pool cls --mean 0 --std 0", "positive"},
        BadLine{kRandom + "--pool cls --mean 0,1 --std 1", "one value or three"},
        BadLine{kRandom + "--pool cls --mean nan --std 1", "--mean"},
        BadLine{kRandom + "--pool middle --mean 0 --std 1", "middle"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --resize stretch", "stretch"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --image-size 5000", "4096"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --crop-pct 1.5", "--crop-pct"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --frames -3", "--frames"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --batch 0", "--batch"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --store int8", "int8"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --frmaes 3", "--frames"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --frames 0", "--frames"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --image-size 0", "--image-size"},
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --heads 0", "--heads"},
        BadLine{"--input a --out b --backbone m --pool cls --mean 0 --std 1", "--pool"},
        BadLine{"--input a --out b --preset nosuch --weights w", "retfound-green"},
        BadLine{"--input a --out b --random-weights x --architecture y --pool cls --mean 0 --std 1",
                "--random-weights"}));

}  // namespace
}  // namespace coldframe
