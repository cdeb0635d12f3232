// Checkpoints that are damaged, hostile or odd: always an error that says so, never a crash.
#include "extract/vit/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "common/cli/error.h"
#include "common/cli/log.h"
#include "common/text/text.h"
#include "extract/vit/checkpoint/pth.h"
#include "tests/extract/vit/pickle_bytes.h"

namespace coldframe::vit {
namespace {

using test::PickledView;
using ::testing::HasSubstr;

class CheckpointTest : public ::testing::Test {
 protected:
  void SetUp() override {
    set_quiet(true);
    path_ = std::filesystem::path(::testing::TempDir()) / concat("coldframe-", getpid(), ".pth");
  }
  void TearDown() override { std::filesystem::remove(path_); }

  StateDict load(std::string_view bytes) {
    test::write_file(path_, bytes);
    return load_checkpoint(path_);
  }
  // The message with which `bytes` are refused, "" if they are not.
  std::string refusal(std::string_view bytes) {
    try {
      load(bytes);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  std::filesystem::path path_;
};

void expect_counting(const StateDict& tensors) {
  ASSERT_EQ(tensors.size(), 1u);
  EXPECT_TRUE(tensors.at("weight").equal(torch::arange(6, torch::kFloat32).view({2, 3})));
}

TEST_F(CheckpointTest, ReadsBothFormats) {
  expect_counting(load(test::pth_zip()));
  expect_counting(load(test::pth_legacy()));
}

TEST_F(CheckpointTest, RefusesEveryTruncation) {
  for (const std::string& whole : {test::pth_zip(), test::pth_legacy()})
    for (std::size_t length = 0; length < whole.size(); ++length)
      EXPECT_NE(refusal(whole.substr(0, length)), "") << length << " of " << whole.size();
}

TEST_F(CheckpointTest, SurvivesFlippedBytes) {
  std::mt19937_64 random(7);
  for (const std::string& whole : {test::pth_zip(), test::pth_legacy()}) {
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (int repeat = 0; repeat < 4; ++repeat) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(random());
        refusal(damaged);  // whether it is noticed or not: no crash, nothing but DataError
      }
    for (int repeat = 0; repeat < 2000; ++repeat) {
      std::string damaged = whole;
      for (int flips = 0; flips < 8; ++flips)
        damaged[random() % damaged.size()] = static_cast<char>(random());
      refusal(damaged);
    }
  }
}

TEST_F(CheckpointTest, NoticesFlippedContentOfAZip) {
  std::string damaged = test::pth_zip();
  damaged[damaged.find("archive/data/0") + 14 + 3] ^= 1;
  EXPECT_THAT(refusal(damaged), HasSubstr("checksum of entry 'archive/data/0'"));
}

struct Lie {
  const char* name;
  PickledView view;
  const char* message;
};

void PrintTo(const Lie& lie, std::ostream* out) {
  *out << lie.name;
}

class LyingView : public CheckpointTest, public ::testing::WithParamInterface<Lie> {};

TEST_P(LyingView, IsRefusedInBothFormats) {
  const Lie& lie = GetParam();
  EXPECT_THAT(refusal(test::pth_zip(lie.view)), HasSubstr(lie.message));
  EXPECT_NE(refusal(test::pth_legacy(lie.view)), "");
}

constexpr std::int64_t kHuge = std::int64_t{1} << 62;

INSTANTIATE_TEST_SUITE_P(
    All, LyingView,
    ::testing::Values(
        Lie{"offset", {.offset = 1}, "outside its storage"},
        Lie{"negative_offset", {.offset = -1}, "outside its storage"},
        Lie{"sizes", {.sizes = {3, 3}}, "outside its storage"},
        Lie{"strides", {.strides = {4, 1}}, "outside its storage"},
        Lie{"negative_size", {.sizes = {-2, 3}}, "outside its storage"},
        Lie{"negative_stride", {.strides = {-3, 1}}, "outside its storage"},
        Lie{"overflowing_size", {.sizes = {kHuge, 4}, .strides = {0, 0}}, "outside its storage"},
        Lie{"overflowing_stride", {.sizes = {5, 3}, .strides = {kHuge, 1}}, "outside its storage"},
        Lie{"overflowing_offset", {.offset = INT64_MAX}, "outside its storage"},
        Lie{"ranks", {.sizes = {6}}, "outside its storage"},
        Lie{"expansion", {.sizes = {1 << 20, 1 << 20}, .strides = {0, 0}}, "far more elements"},
        Lie{"count", {.count = 7}, "bytes"}, Lie{"negative_count", {.count = -6}, "claims"},
        Lie{"huge_count", {.count = kHuge}, "claims"},
        Lie{"type", {.storage_type = "DoubleStorage"}, "bytes"},
        Lie{"unknown_type", {.storage_type = "save"}, "refused: the pickle calls torch.save"},
        Lie{"complex", {.storage_type = "ComplexFloatStorage"}, "ComplexFloatStorage is not"}),
    [](const auto& instance) { return instance.param.name; });

struct BadFile {
  const char* name;
  std::string bytes;
  const char* message;
};

void PrintTo(const BadFile& file, std::ostream* out) {
  *out << file.name;
}

class HostileFile : public CheckpointTest, public ::testing::WithParamInterface<BadFile> {};

TEST_P(HostileFile, IsRefusedWithAReason) {
  EXPECT_THAT(refusal(GetParam().bytes), HasSubstr(GetParam().message));
}

std::string with_pickle(const std::string& pickle) {
  return test::zip({{"archive/data.pkl", pickle}});
}

std::string repeated(std::size_t count, const std::string& text) {
  std::string all;
  for (std::size_t i = 0; i < count; ++i) all += text;
  return all;
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileFile,
    ::testing::Values(
        BadFile{"empty", "", "the file is empty"},
        BadFile{"text", "hello, world", "neither a safetensors file"},
        BadFile{"os_system",
                with_pickle(concat("\x80\x02"
                                   "cos\nsystem\n(",
                                   test::pickled_text("true"), "tR.")),
                "refused: the pickle calls os.system"},
        BadFile{"posix_system", with_pickle("cposix\nsystem\n(U\x04truetR."),
                "posix.system (os.system)"},
        BadFile{"inst", with_pickle("(U\x04trueios\nsystem\n."), "opcode 105"},
        BadFile{"stack_global", with_pickle("\x80\x02U\x02osU\x06system\x93."), "opcode 147"},
        BadFile{"dotted", with_pickle("ctorch._utils\n_rebuild_tensor_v2.__globals__\n."),
                "calls torch._utils._rebuild_tensor_v2.__globals__"},
        BadFile{"whole_model",
                with_pickle("\x80\x02"
                            "ctimm.models.vision_transformer\nBlock\n)\x81."),
                "save model.state_dict() alone"},
        BadFile{"control_characters", with_pickle("c\x1b[31m\nx\n."), "calls \\u001b[31m.x"},
        BadFile{"calling_a_dict", with_pickle("})R."), "calls a dict"},
        BadFile{"no_tensors", with_pickle("\x80\x02}."), "without a dict of tensors"},
        BadFile{"a_list", with_pickle("\x80\x02]."), "it holds a list"},
        BadFile{"stack_underflow", with_pickle("\x80\x02."), "empty stack"},
        BadFile{"below_the_mark", with_pickle("}N(\x85."), "empty stack"},
        BadFile{"setitem_below_the_mark", with_pickle("}NN(su."), "empty stack"},
        BadFile{"unset_mark", with_pickle("t."), "never set"},
        BadFile{"unknown_memo", with_pickle("h\x05."), "item 5, which it never stored"},
        BadFile{"protocol", with_pickle("\x80\x04."), "protocol 4, expected 2"},
        BadFile{"long_string", with_pickle(concat("X", test::little(~0ull, 4), "x.")), "truncated"},
        BadFile{"deep_nesting",
                with_pickle(concat("]", repeated(300000, "]"), repeated(300000, "a"), ".")),
                "it holds a list"},
        BadFile{"a_list_in_itself",
                with_pickle("]q\x01h\x01"
                            "a."),
                "it holds a list"},
        BadFile{"too_many_values", with_pickle(repeated(4000001, "N") + "."), "builds more than"},
        BadFile{"persistent_module",
                with_pickle(concat("(", test::pickled_text("module"),
                                   "Nt"
                                   "Q.")),
                "something else than a tensor's storage"},
        BadFile{"no_pickle", test::zip({{"archive/data/0", "x"}}), "without data.pkl"},
        BadFile{"torchscript", test::zip({{"m/data.pkl", "}."}, {"m/constants.pkl", "]."}}),
                "TorchScript"},
        BadFile{"big_endian", test::zip({{"a/data.pkl", "}."}, {"a/byteorder", "big"}}),
                "big-endian"},
        BadFile{"twice", test::zip({{"a/data.pkl", "}."}, {"a/data.pkl", "}."}}), "there twice"},
        BadFile{"legacy_other_pickle", "\x80\x02}.", "not one that torch.save wrote"}),
    [](const auto& instance) { return instance.param.name; });

TEST_F(CheckpointTest, RefusesWhatIsNoFile) {
  EXPECT_THROW(load_checkpoint("/nonexistent/weights.pth"), DataError);
  EXPECT_THROW(load_checkpoint(::testing::TempDir()), DataError);
}

TEST(Unpickler, ReadsPlainValues) {
  pickle::Heap heap;
  // [None, True, -2, 258, 1.5, 'text', (1,)]
  const std::string bytes =
      concat("\x80\x02](N\x88J\xfe\xff\xff\xffM\x02\x01G\x3f\xf8", std::string(6, '\0'), "X",
             test::little(4, 4), "textK\x01\x85", "e.");
  pickle::Unpickler unpickler(bytes, heap);
  const pickle::Value& list = unpickler.load();
  ASSERT_EQ(list.items.size(), 7u);
  EXPECT_TRUE(list.items[0]->is(pickle::Kind::kNone));
  EXPECT_EQ(list.items[1]->integer, 1);
  EXPECT_EQ(list.items[2]->integer, -2);
  EXPECT_EQ(list.items[3]->integer, 258);
  EXPECT_TRUE(list.items[4]->is(pickle::Kind::kObject));
  EXPECT_EQ(list.items[5]->text, "text");
  EXPECT_EQ(list.items[6]->items.at(0)->integer, 1);
  EXPECT_EQ(unpickler.position(), bytes.size());
}

}  // namespace
}  // namespace coldframe::vit
