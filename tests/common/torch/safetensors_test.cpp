#include "common/torch/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/cli/error.h"
#include "tests/support/temporary_folder.h"

namespace coldframe {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TemporaryFolder;

std::string length_of(std::uint64_t length) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes += static_cast<char>(length >> 8 * i & 0xFF);
  return bytes;
}

// A file with this header and so many bytes of data.
std::string file_of(const std::string& header, std::size_t data_bytes) {
  return length_of(header.size()) + header + std::string(data_bytes, '\1');
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}";
}

TEST(Safetensors, WhatIsWrittenIsRead) {
  const TemporaryFolder folder;
  const auto path = folder / "a.safetensors";
  StateDict tensors;
  for (const auto type : {torch::kBool, torch::kUInt8, torch::kInt8, torch::kInt16, torch::kFloat16,
                          torch::kBFloat16, torch::kInt32, torch::kFloat32, torch::kFloat64,
                          torch::kInt64, torch::kFloat8_e4m3fn, torch::kFloat8_e5m2}) {
    tensors[std::string("layer.") + torch::toString(type)] = torch::arange(6).view({2, 3}).to(type);
  }
  tensors["transposed"] = torch::arange(6, torch::kFloat32).view({2, 3}).t();
  tensors["scalar"] = torch::tensor(2.5);
  tensors["empty"] = torch::empty({0, 7});
  tensors["naïve \"name\""] = torch::ones({3});
  write_safetensors(path, tensors, {{"format", "pt"}, {"note", "ü \"\n"}});

  EXPECT_TRUE(is_safetensors(path));
  const SafetensorsFile file = read_safetensors(path);
  EXPECT_EQ(file.metadata.at("note"), "ü \"\n");
  ASSERT_EQ(file.tensors.size(), tensors.size());
  for (const auto& [name, expected] : tensors) {
    const torch::Tensor& found = file.tensors.at(name);
    EXPECT_EQ(found.scalar_type(), expected.scalar_type()) << name;
    EXPECT_EQ(found.sizes(), expected.sizes()) << name;
    EXPECT_TRUE(torch::equal(found.to(torch::kFloat64), expected.to(torch::kFloat64))) << name;
  }
  const std::string first = folder.read("a.safetensors");
  write_safetensors(path, file.tensors, file.metadata);
  EXPECT_EQ(folder.read("a.safetensors"), first) << "equal input gives equal bytes";
}

TEST(Safetensors, ASealShowsEveryFlippedBit) {
  const TemporaryFolder folder;
  const auto path = folder.path() / "a.safetensors";
  write_sealed_safetensors(path, {{"x", torch::arange(5, torch::kFloat32)}}, {{"card", "17"}});
  const SafetensorsFile file = read_sealed_safetensors(path);
  EXPECT_EQ(file.metadata, (std::map<std::string, std::string>{{"card", "17"}}));
  const std::string whole = folder.read("a.safetensors");
  for (std::size_t i = 0; i < whole.size(); ++i) {
    std::string damaged = whole;
    damaged[i] ^= 1;
    folder.write("a.safetensors", damaged);
    EXPECT_THROW(read_sealed_safetensors(path), DataError) << "byte " << i;
  }
  write_safetensors(path, file.tensors, file.metadata);
  EXPECT_THAT(message_of<DataError>([&] { read_sealed_safetensors(path); }),
              HasSubstr("no checksum"));
}

TEST(Safetensors, AFileWithoutTensorsIsValid) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {}, {});
  EXPECT_TRUE(read_safetensors(folder / "a").tensors.empty());
  EXPECT_TRUE(read_safetensors(folder.write("b", file_of("{}", 0))).tensors.empty());
}

TEST(Safetensors, OffsetsNeedNotFollowTheOrderOfTheHeader) {
  const TemporaryFolder folder;
  const auto path =
      folder.write("a", file_of(R"({"b":)" + tensor("U8", "[2]", "[3,5]") + R"(,"a":)" +
                                    tensor("U8", "[3]", "[0,3]") + "}   ",
                                5));
  EXPECT_EQ(read_safetensors(path).tensors.at("b").numel(), 2);
}

TEST(Safetensors, RefusesToWriteWhatTheFormatCannotHold) {
  const TemporaryFolder folder;
  const auto path = folder / "a";
  const auto one = torch::ones({1});
  EXPECT_THROW(write_safetensors(path, {{"__metadata__", one}}, {}), DataError);
  EXPECT_THROW(write_safetensors(path, {{"\xFF", one}}, {}), DataError);
  EXPECT_THROW(write_safetensors(path, {{"a", one}}, {{"k", "\xFF"}}), DataError);
  EXPECT_THROW(write_safetensors(path, {{"a", one.to(torch::kComplexDouble)}}, {}), DataError);
  EXPECT_THAT(folder.names(), ElementsAre());
}

TEST(Safetensors, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  write_safetensors(folder / "a", {{"x", torch::ones({3})}, {"y", torch::zeros({2, 2})}}, {});
  const std::string whole = folder.read("a");
  for (std::size_t length = 0; length < whole.size(); ++length) {
    const auto path = folder.write("cut", std::string_view(whole).substr(0, length));
    EXPECT_THROW(read_safetensors(path), DataError) << length;
  }
}

struct Hostile {
  const char* name;
  std::string bytes;
  const char* message;
};

class HostileSafetensorsTest : public ::testing::TestWithParam<Hostile> {};

TEST_P(HostileSafetensorsTest, IsRefusedByName) {
  const TemporaryFolder folder;
  const auto path = folder.write("bad.safetensors", GetParam().bytes);
  const std::string message = message_of<DataError>([&] { read_safetensors(path); });
  EXPECT_THAT(message, HasSubstr("bad.safetensors"));
  EXPECT_THAT(message, HasSubstr(GetParam().message));
}

Hostile header(const char* name, const std::string& json, std::size_t data, const char* message) {
  return {name, file_of(json, data), message};
}

Hostile one_tensor(const char* name, const std::string& entry, std::size_t data,
                   const char* message) {
  return header(name, R"({"w":)" + entry + "}", data, message);
}

std::vector<Hostile> hostile_files() {
  const std::string u8 = tensor("U8", "[4]", "[0,4]");
  const std::string max = "18446744073709551615";
  std::string ones;
  for (int i = 0; i < 64; ++i) ones += ",1";
  return {
      {"Empty", "", "has 0 bytes"},
      {"Short", "1234567", "has 7 bytes"},
      {"LengthBeyondTheFile", length_of(50) + "{}", "cut short"},
      {"LengthBeyondTheBound", length_of(100'000'001) + "{}", "claims 100000001 bytes"},
      {"LengthAllOnes", std::string(8, '\xFF') + "{}", "claims 18446744073709551615"},
      header("EmptyHeader", "", 4, "starts with '{'"),
      header("ArrayHeader", "[]", 0, "starts with '{'"),
      header("LeadingSpace", " {}", 0, "starts with '{'"),
      header("CutJson", R"({"w":)", 0, "not valid JSON"),
      header("TrailingText", "{}x", 0, "not valid JSON"),
      header("TwoObjects", "{}{}", 0, "not valid JSON"),
      header("BadUtf8", "{\"\xFF\":" + u8 + "}", 4, "not valid JSON"),
      header("DeepNesting", R"({"w":)" + std::string(100000, '['), 0, "a list"),
      header("NotATensor", R"({"w":3})", 0, "a number"),
      header("Null", R"({"w":null})", 0, "null"),
      header("TensorList", R"({"w":[]})", 0, "a list"),
      header("DuplicateName", R"({"w":)" + u8 + R"(,"w":)" + u8 + "}", 4, "'w' occurs twice"),
      header("EscapedDuplicate", R"({"w":)" + u8 + R"(,"\u0077":)" + u8 + "}", 4, "occurs twice"),
      header("DuplicateMetadata", R"({"__metadata__":{},"__metadata__":{}})", 0, "occurs twice"),
      header("DuplicateMetadataKey", R"({"__metadata__":{"a":"1","a":"2"}})", 0, "occurs twice"),
      header("MetadataNumber", R"({"__metadata__":{"a":1}})", 0, "a number"),
      header("MetadataObject", R"({"__metadata__":{"a":{}}})", 0, "an object"),
      one_tensor("DuplicateField", R"({"dtype":"U8","dtype":"U8"})", 4, "occurs twice"),
      one_tensor("MissingField", R"({"dtype":"U8","shape":[4]})", 4, "lacks one of"),
      one_tensor("UnknownField", R"({"dtype":"U8","extra":1})", 4, "unknown field 'extra'"),
      one_tensor("UnknownType", tensor("F4", "[8]", "[0,4]"), 4, "unknown type 'F4'"),
      one_tensor("LowerCaseType", tensor("f32", "[1]", "[0,4]"), 4, "unknown type"),
      one_tensor("NegativeDimension", tensor("U8", "[-4]", "[0,4]"), 4, "negative number"),
      one_tensor("FractionalDimension", tensor("U8", "[4.0]", "[0,4]"), 4, "the number 4.0"),
      one_tensor("TextDimension", tensor("U8", "[\"4\"]", "[0,4]"), 4, "text"),
      one_tensor("NestedShape", tensor("U8", "[[4]]", "[0,4]"), 4, "a list"),
      one_tensor("HugeDimension", tensor("U8", "[" + max + "]", "[0,4]"), 4, "too large"),
      one_tensor("BeyondUint64", tensor("U8", "[99999999999999999999]", "[0,4]"), 4, "the number"),
      one_tensor("ProductOverflow", tensor("U8", "[4294967296,4294967296]", "[0,0]"), 0,
                 "too large"),
      one_tensor("ProductWrapsToFit", tensor("F32", "[4611686018427387905]", "[0,4]"), 4,
                 "too large"),
      one_tensor("OverflowBehindZero", tensor("U8", "[0,4294967296,4294967296]", "[0,0]"), 0,
                 "too large"),
      one_tensor("ManyDimensions", tensor("U8", "[1" + ones + "]", "[0,1]"), 1,
                 "more than 64 dimensions"),
      one_tensor("OneOffset", tensor("U8", "[4]", "[0]"), 4, "fewer than two"),
      one_tensor("ThreeOffsets", tensor("U8", "[4]", "[0,4,8]"), 4, "more than two"),
      one_tensor("BackwardOffsets", tensor("U8", "[0]", "[4,0]"), 4, "expected it to start at 0"),
      one_tensor("EndBeforeStart", tensor("U8", "[4]", "[0," + max + "]"), 4, "its type and shape"),
      one_tensor("HoleAtTheStart", tensor("U8", "[4]", "[1,5]"), 5, "expected it to start at 0"),
      one_tensor("ShapeTooSmall", tensor("U8", "[3]", "[0,4]"), 4, "need 3"),
      one_tensor("ShapeTooLarge", tensor("F32", "[2]", "[0,4]"), 4, "need 8"),
      one_tensor("DataCutShort", u8, 3, "it is cut short"),
      one_tensor("DataTooLong", u8, 5, "it is too long"),
      one_tensor("BoolOfTwo", tensor("BOOL", "[0]", "[0,0]"), 1, "too long"),
      header("Overlap", R"({"a":)" + u8 + R"(,"b":)" + tensor("U8", "[4]", "[2,6]") + "}", 6,
             "start at 4"),
      header("Hole", R"({"a":)" + u8 + R"(,"b":)" + tensor("U8", "[4]", "[5,9]") + "}", 9,
             "start at 4"),
      header("SameBytes", R"({"a":)" + u8 + R"(,"b":)" + u8 + "}", 4, "start at 4"),
  };
}

INSTANTIATE_TEST_SUITE_P(Files, HostileSafetensorsTest, ::testing::ValuesIn(hostile_files()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(Safetensors, TruthValuesAreZeroOrOne) {
  const TemporaryFolder folder;
  std::string bytes = file_of(R"({"w":)" + tensor("BOOL", "[2]", "[0,2]") + "}", 2);
  EXPECT_NO_THROW(read_safetensors(folder.write("a", bytes)));
  bytes.back() = 2;
  EXPECT_THAT(message_of<DataError>([&] { read_safetensors(folder.write("a", bytes)); }),
              HasSubstr("bytes other than 0 and 1"));
}

TEST(Safetensors, IsToldByContent) {
  const TemporaryFolder folder;
  EXPECT_FALSE(is_safetensors(folder.write("zip", "PK\3\4 and so on and on")));
  EXPECT_FALSE(is_safetensors(folder.write("pickle", "\x80\x02}q\x01(X\x03")));
  EXPECT_FALSE(is_safetensors(folder.write("empty", "")));
  EXPECT_TRUE(is_safetensors(folder.write("cut", length_of(500) + "{\"w\":")));
  EXPECT_THROW(is_safetensors(folder / "none"), DataError);
}

}  // namespace
}  // namespace coldframe
