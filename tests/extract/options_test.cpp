#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/system/resources.h"
#include "common/text/text.h"
#include "extract/input/exam_list.h"
#include "extract/options.h"
#include "extract/pipeline/recipe.h"
#include "extract/vit/published/published.h"
#include "tests/extract/support.h"

namespace coldframe::extract {
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
  EXPECT_EQ(options->selection.count, 12);
}

TEST(ExtractOptions, ThreeChannelConstants) {
  const auto options =
      parse_extract_options(words(kRandom + "--pool mean --mean 0.1,0.2,0.3 --std 1"));
  EXPECT_EQ(options->preprocessing.mean, (std::array{0.1f, 0.2f, 0.3f}));
}

TEST(ExtractOptions, OblongImages) {
  const std::string line = kRandom + "--pool cls --mean 0 --std 1 ";
  const auto options = parse_extract_options(words(line + "--image-size 224x320"));
  EXPECT_EQ(options->backbone.image_size, ImageSize(224, 320));
  EXPECT_EQ(to_json(options->preprocessing)["image_size"], (Json{224, 320}));
  for (const char* wrong : {"4", "224x", "x224", "224x320x3", "224,320", "5000"})
    EXPECT_THROW(parse_extract_options(words(line + "--image-size " + wrong)), ConfigError);
  EXPECT_THROW(parse_extract_options(words(line + "--image-size 224x320 --tiles")), ConfigError);
}

TEST(ExtractOptions, SayHowFilesBecomeFrames) {
  const auto options = parse_extract_options(
      words(kRandom + "--pool cls --mean 0 --std 1 --window 40,400 --axis coronal "
                      "--slices 5::2 --group study --keep-patient-id --patient-salt pepper"));
  const frames::ReaderOptions& reader = options->reader;
  EXPECT_EQ(reader.window.kind, frames::Window::Kind::kFixed);
  EXPECT_EQ(reader.window.width, 400);
  EXPECT_EQ(reader.axis, 1);
  EXPECT_EQ(reader.slices, (frames::SliceRange{5, -1, 2}));
  EXPECT_EQ(reader.grouping, frames::DicomGrouping::kStudy);
  EXPECT_TRUE(reader.keep_patient_id);
  EXPECT_EQ(reader.patient_salt, "pepper");
}

TEST(ExtractOptions, SlicesAreReadAsPythonsAre) {
  const auto slices = [](const std::string& text) {
    return parse_extract_options(words("--dry-run --input a --slices " + text))->reader.slices;
  };
  EXPECT_EQ(slices("3"), (frames::SliceRange{3, 4, 1}));
  EXPECT_EQ(slices(":8"), (frames::SliceRange{0, 8, 1}));
  EXPECT_EQ(slices("2:8:3"), (frames::SliceRange{2, 8, 3}));
  EXPECT_EQ(slices("::2"), (frames::SliceRange{0, -1, 2}));
}

TEST(ExtractOptions, SayWhatHappensToPixels) {
  const auto options = parse_extract_options(
      words("--input a --dry-run --crop 1,2,30,40 --spacing 0.5 --tiles --tile-size 300"));
  const preprocess::Preprocessing& p = options->preprocessing;
  EXPECT_EQ(p.crop, *frames::parse_crop("1,2,30,40"));
  EXPECT_EQ(p.spacing_mm, 0.5);
  EXPECT_EQ(p.tiles, (preprocess::Tiling{300, 0.25}));
  const auto more =
      parse_extract_options(words("--input a --dry-run --tiles 0.5 --image-size 112 --crop auto"));
  EXPECT_EQ(more->preprocessing.tiles, (preprocess::Tiling{112, 0.5}));
  EXPECT_EQ(more->preprocessing.crop.kind, frames::CropRule::Kind::kAuto);
}

TEST(ExtractOptions, SeveralDevicesAreAListOfNumbers) {
  const auto devices = [](const std::string& more) {
    return parse_extract_options(words("--dry-run --input a" + more))->devices;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(devices(""), (Names{"auto"}));
  EXPECT_EQ(devices(" --device cuda:1"), (Names{"cuda:1"}));
  EXPECT_EQ(devices(" --devices 0,2"), (Names{"cuda:0", "cuda:2"}));
  EXPECT_EQ(devices(" --devices cuda:3"), (Names{"cuda:3"}));
  EXPECT_EQ(devices(" --devices cpu,cpu"), (Names{"cpu", "cpu"}));
  EXPECT_EQ(devices(" --devices cuda:02,0"), (Names{"cuda:2", "cuda:0"}));
  for (const char* wrong :
       {"0,", "0,0", "1,cuda:1", "cuda:01,1", "cuda:", "cuda:x", "-1", "gpu", "0,1 --device cpu"})
    EXPECT_THROW(devices(std::string(" --devices ") + wrong), ConfigError) << wrong;
}

TEST(ExtractOptions, DecodersLeaveRoomForABackboneOnTheCpu) {
  const auto threads = [](const std::string& more) {
    return decode_threads_of(
        *parse_extract_options(words("--dry-run --input a --devices " + more)));
  };
  const int cores = static_cast<int>(usable_processors());
  EXPECT_EQ(threads("cpu"), std::max(1, cores / 2));
  EXPECT_EQ(threads("cpu,0"), std::max(1, cores / 2));
  EXPECT_EQ(threads("0"), std::max(1, cores - 1));
  EXPECT_EQ(threads("0,1"), std::max(1, cores - 2));
  EXPECT_EQ(threads("0 --decode-threads 7"), 7);
}

TEST(ExtractOptions, ADryRunNeedsTheInputOnly) {
  EXPECT_TRUE(parse_extract_options(words("--input a --dry-run"))->dry_run);
}

TEST(ExtractOptions, TheSaltMayComeFromTheEnvironment) {
  ::setenv("COLDFRAME_PATIENT_SALT", "sea", 1);
  const auto salt = [](const std::string& line) {
    return parse_extract_options(words(line))->reader.patient_salt;
  };
  EXPECT_EQ(salt("--input a --dry-run"), "sea");
  EXPECT_EQ(salt("--input a --dry-run --patient-salt rock"), "rock");
  ::unsetenv("COLDFRAME_PATIENT_SALT");
  EXPECT_EQ(salt("--input a --dry-run"), "");
}

TEST(ExtractOptions, ExifIsOneKeyOfTheRecipe) {
  MeanBackbone backbone;
  const auto plain = make_recipe(small_options(), backbone);
  EXPECT_EQ(plain.features["reading"].dump(), R"({"exif":"upright"})");
  auto ignored = small_options();
  ignored.reader.ignore_exif = true;
  EXPECT_FALSE(make_recipe(ignored, backbone).features.contains("reading"));
  EXPECT_TRUE(
      parse_extract_options(words("--input a --dry-run --ignore-exif"))->reader.ignore_exif);
}

TEST(ExtractOptions, DefaultsLeaveRecipesAsTheyWere) {
  MeanBackbone backbone;
  auto as_before = small_options();
  as_before.reader.ignore_exif = true;
  const auto plain = make_recipe(as_before, backbone);
  EXPECT_EQ(plain.feature_digest(),
            sha256_hex("{\"backbone\":{\"kind\":\"mean of red\"},\"preprocessing\":{\"crop_pct\":"
                       "1.0,\"image_size\":16,\"interpolation\":\"bicubic\",\"mean\":[0.0,0.0,0.0],"
                       "\"resampler\":\"pillow\",\"resize\":\"shortest\",\"std\":[1.0,1.0,1.0]}}"));
  auto other = as_before;
  other.reader.slices.step = 2;
  EXPECT_EQ(make_recipe(other, backbone).feature_digest(), plain.feature_digest());
  EXPECT_NE(make_recipe(other, backbone).cache_digest(), plain.cache_digest());
  other.reader.window = frames::parse_window("1%,99%");
  EXPECT_NE(make_recipe(other, backbone).feature_digest(), plain.feature_digest());
}

class RecipeOf : public ::testing::TestWithParam<const char*> {};

TEST_P(RecipeOf, OptionsGivesTheOptionsBackAndTheirLines) {
  MeanBackbone backbone;
  const std::string rest = "--dry-run --input a --mean 0.5,0.25,0.1 --std 0.5";
  const auto given = *parse_extract_options(words(concat(rest, " ", GetParam())));
  const cache::Recipe recipe = make_recipe(given, backbone);
  EXPECT_NE(to_json(recipe), to_json(make_recipe(*parse_extract_options(words(rest)), backbone)));
  ExtractOptions asked;
  asked.input = "a";
  EXPECT_EQ(to_json(make_recipe(follow_recipe(recipe, asked), backbone)), to_json(recipe));

  const testing::TemporaryFolder folder;
  const std::string lines = recipe_lines(recipe);
  const auto again = parse_extract_options(
      words("--dry-run --input a --config " + folder.write("recipe.ini", lines).string()));
  EXPECT_EQ(to_json(make_recipe(*again, backbone)), to_json(recipe)) << lines;
}

INSTANTIATE_TEST_SUITE_P(
    Options, RecipeOf,
    ::testing::Values("--frames 12 --phases 103,518.5", "--every 3", "--fps 2.5",
                      "--start 1 --end 9.5", "--slices 20:140:4", "--slices ::2", "--group study",
                      "--accept-broken-tail", "--frame-columns eye,phase --streams eye --frames 3",
                      "--store float32", "--window 40,400", "--window 0.5%,99%", "--axis sagittal",
                      "--square-pixels --deinterlace", "--ignore-exif", "--image-size 224x320",
                      "--resize pad --crop-pct 0.875 --interpolation bilinear --resampler torch",
                      "--crop 5%,0,90%,100%-20 --spacing 0.25", "--tiles 0.5 --tile-size 112",
                      "--clip 16 --clip-every 4", "--clip 8 --clip-fps 2.7 --clip-gap 1.5",
                      "--clip 4 --clip-every 2 --clips 5 --clip-pad zero",
                      "--clip 4 --clip-every 2 --clip-sampling linspace --clip-step-seconds 0.3"));

TEST(Recipe, StatesItsBackbone) {
  const Json shape = to_json(vit::find_published("vit_tiny_patch16_224").architecture);
  cache::Recipe recipe = make_recipe(small_options(), MeanBackbone());
  recipe.features["backbone"] = {{"kind", "random"},
                                 {"seed", 7},
                                 {"architecture", shape},
                                 {"pooling", "cls+mean"},
                                 {"layers", {3, 12}}};
  ExtractOptions asked;
  asked.input = "a";
  asked.cut = 2;
  const vit::BackboneOptions backbone = follow_recipe(recipe, asked).backbone;
  EXPECT_EQ(backbone.random_seed, 7);
  EXPECT_EQ(to_json(*backbone.stated), shape);
  EXPECT_EQ(backbone.features.pooling, vit::Pooling::kClsMean);
  EXPECT_EQ(backbone.features.layers, (std::vector<std::int64_t>{3, 12}));
  EXPECT_EQ(backbone.features.cut, 2);
  EXPECT_EQ(backbone.image_size, ImageSize(16));
}

TEST(Recipe, DecidesAgainstWhatIsAsked) {
  ExtractOptions asked;
  asked.input = "a";
  asked.selection.every = 4;
  const cache::Recipe recipe = make_recipe(small_options(), MeanBackbone());
  EXPECT_THROW(follow_recipe(recipe, asked), DataError);
}

struct WrongRecipe {
  const char *place, *value, *said;
};

class WrongRecipes : public ::testing::TestWithParam<WrongRecipe> {};

TEST_P(WrongRecipes, AreNotFollowed) {
  Json json = to_json(make_recipe(small_options(), MeanBackbone()));
  json[Json::json_pointer(GetParam().place)] = Json::parse(GetParam().value);
  ExtractOptions asked;
  asked.input = "a";
  try {
    follow_recipe(cache::recipe_from_json(json), asked);
    FAIL() << json;
  } catch (const DataError& error) {
    EXPECT_NE(std::string(error.what()).find(GetParam().said), std::string::npos) << error.what();
  }
}

INSTANTIATE_TEST_SUITE_P(
    Values, WrongRecipes,
    ::testing::Values(WrongRecipe{"/features/preprocessing/image_size", "4", "--image-size"},
                      WrongRecipe{"/features/preprocessing/image_size", "[224]", "--image-size"},
                      WrongRecipe{"/features/preprocessing/resize", "\"wide\"", "resize"},
                      WrongRecipe{"/features/preprocessing/crop_pct", "\"1\"", "--crop-pct"},
                      WrongRecipe{"/features/preprocessing/mean", "[127, 127, 127]", "0…255"},
                      WrongRecipe{"/features/preprocessing/std", "[0.5, 0, 0.5]", "positive"},
                      WrongRecipe{"/features/preprocessing/std", "null", "preprocessing.std"},
                      WrongRecipe{"/features/preprocessing/sharpen", "1", "preprocessing.sharpen"},
                      WrongRecipe{"/features/reading/turn", "90", "reading.turn"},
                      WrongRecipe{"/features/backbone/layers", "[2, 1]", "--layers"},
                      WrongRecipe{"/features/backbone/pooling", "[]", "--pool"},
                      WrongRecipe{"/storage/frames", "0", "--frames"},
                      WrongRecipe{"/storage/selection/every", "2.5", "--every"},
                      WrongRecipe{"/storage/selection/phases", "[5, 3]", "--phases"},
                      WrongRecipe{"/storage/slices", "{\"begin\": 4, \"end\": 2, \"step\": 1}",
                                  "--slices"},
                      WrongRecipe{"/storage/store", "\"float64\"", "float64"}));

TEST(ExtractOptions, ViewsBelongToTheCacheAndNotToTheFeatures) {
  MeanBackbone backbone;
  const auto plain = make_recipe(small_options(), backbone);
  auto options = small_options();
  options.augmentation =
      parse_extract_options(words("--input a --dry-run --views 2"))->augmentation;
  const auto recipe = make_recipe(options, backbone);
  EXPECT_EQ(recipe.feature_digest(), plain.feature_digest());
  EXPECT_NE(recipe.cache_digest(), plain.cache_digest());
  EXPECT_EQ(recipe.storage["views"].dump(), R"(["clean","view1","view2"])");
  EXPECT_EQ(recipe.storage["augment"]["rotate"].dump(), "[-10.0,10.0]");
  options.augmentation.seed = 1;
  EXPECT_NE(make_recipe(options, backbone).cache_digest(), recipe.cache_digest());
  EXPECT_TRUE(plain.storage.find("augment") == plain.storage.end());
}

TEST(ExtractOptions, WindowsThatDifferBeyondSixDigitsHaveRecipesOfTheirOwn) {
  MeanBackbone backbone;
  auto one = small_options(), other = one;
  one.reader.window = frames::parse_window("1234567.25,400");
  other.reader.window = frames::parse_window("1234567.5,400");
  EXPECT_NE(make_recipe(one, backbone).feature_digest(),
            make_recipe(other, backbone).feature_digest());
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
        BadLine{kRandom + "--pool cls --mean 123.675,116.28,103.53 --std 58.395,57.12,57.375",
                "give --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225"},
        BadLine{kRandom + "--pool cls --mean 127.5 --std 1",
                "--mean 0.5,0.5,0.5 --std 0.00392157,0.00392157,0.00392157"},
        BadLine{kRandom + "--pool cls --mean 127.5 --std 0.5", "--std 0.5,0.5,0.5"},
        BadLine{kRandom + "--pool cls --mean 0.5 --std 127.5", "--mean 0.5,0.5,0.5 --std 0.5,0.5"},
        BadLine{kRandom + "--pool cls --mean 32768 --std 9000", "other numbers than 0…1"},
        BadLine{"--input a --dry-run --mean 127.5", "levels of 0…255"},
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
        BadLine{kRandom + "--pool cls --mean 0 --std 1 --window wide", "--window"},
        BadLine{"--input a --dry-run --axis q", "--axis"},
        BadLine{"--input a --dry-run --every 0", "--every"},
        BadLine{"--input a --dry-run --fps 0", "--fps"},
        BadLine{"--input a --dry-run --fps 2 --every 2", "give one of them"},
        BadLine{"--input a --dry-run --start 2 --end 2", "no time between"},
        BadLine{"--input a --dry-run --slices 5:5", "--slices"},
        BadLine{"--input a --dry-run --slices ::0", "--slices"},
        BadLine{"--input a --dry-run --slices -3:", "--slices"},
        BadLine{"--input a --dry-run --slices 1:2:3:4", "--slices"},
        BadLine{"--input a --dry-run --group patient", "study"},
        BadLine{"--input a --dry-run --crop 1,2,3", "--crop"},
        BadLine{"--input a --dry-run --crop 1,2,3,0", "--crop"},
        BadLine{"--input a --dry-run --crop -1,2,3,4", "--crop"},
        BadLine{"--input a --dry-run --spacing 0", "--spacing"},
        BadLine{"--input a --dry-run --tiles 0.95", "--tiles"},
        BadLine{"--input a --dry-run --thumbnails 8", "--thumbnails 8: expected 16 to 512 pixels"},
        BadLine{"--input a --dry-run --thumbnails 0", "--thumbnails 0"},
        BadLine{"--input a --dry-run --thumbnails 600", "--thumbnails 600"},
        BadLine{"--input a --dry-run --tiles --tile-size 4", "--tile-size"},
        BadLine{"--input a --dry-run --tile-size 400", "needs --tiles"},
        BadLine{"--input a --dry-run --augment flip", "--augment needs --views"},
        BadLine{"--input a --dry-run --views 0 --augment-seed 1", "--augment-seed needs --views"},
        BadLine{"--input a --dry-run --views 65", "--views"},
        BadLine{"--input a --dry-run --views -1", "--views"},
        BadLine{"--input a --dry-run --views 2 --augment-seed -1", "--augment-seed"},
        BadLine{"--input a --dry-run --views 2 --augment flip,blur", "no 'blur'"},
        BadLine{"--dry-run", "--input"},
        BadLine{"--input a --out b --backbone m --pool cls --mean 0 --std 1", "--pool"},
        BadLine{"--input a --out b --preset nosuch --weights w", "retfound-green"},
        BadLine{"--input a --out b --random-weights x --architecture y --pool cls --mean 0 --std 1",
                "--random-weights"}));

}  // namespace
}  // namespace coldframe::extract
