// An ONNX graph as it grows, operator by operator, and the file of it: ModelProto with IR version 8
// and opset 17. Field numbers are those of onnx/onnx.proto (github.com/onnx/onnx, v1.12 and later).
// Values are known by their names.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "common/files/bytes/protobuf.h"
#include "common/torch/tensor.h"

namespace coldframe::onnx {

using protobuf::Message;
using Value = std::string;
using Integers = std::vector<std::int64_t>;
using Dimensions = std::vector<std::variant<std::int64_t, std::string>>;  // numbers, or names
using Attribute = std::variant<std::int64_t, float, Integers>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

class Graph {
 public:
  explicit Graph(std::string name) : name_(std::move(name)) {}

  // ConfigError for a name that the graph has.
  Value input(const std::string& name, const Dimensions& shape);  // float32
  void output(const Value& value, const std::string& name, const Dimensions& shape);

  Value constant(const torch::Tensor& tensor);  // float32 or int64
  Value constant(const Integers& values);       // int64, one dimension
  Value constant(double value);                 // float32, no dimension

  // Adds an operator of one output, or of several.
  Value add(const char* type, const std::vector<Value>& inputs, const Attributes& attributes = {});
  std::vector<Value> add(const char* type, const std::vector<Value>& inputs,
                         const Attributes& attributes, std::size_t outputs);

  // x [..., in] · weight [out, in]ᵀ + bias; `bias` may be undefined.
  Value linear(const Value& x, const torch::Tensor& weight, const torch::Tensor& bias);
  Value reshape(const Value& x, const Integers& shape);  // 0: as it is, -1: what is left
  Value transpose(const Value& x, const Integers& order);
  // The elements [from, to) of one axis; negative ones count from its end.
  Value slice(const Value& x, std::int64_t axis, std::int64_t from, std::int64_t to);
  Value gelu(const Value& x);

  // Writes the model. Constants go to `path`.data beside it where they take more than `inside`
  // bytes together, for a protobuf message ends at 2 GiB. `facts`: metadata of the model.
  void write(const std::filesystem::path& path, const std::map<std::string, std::string>& facts,
             std::uint64_t inside = 64 << 20) const;

 private:
  void take(const std::string& name);
  Value fresh();

  std::string name_;
  std::set<std::string> taken_;  // names of values
  std::size_t values_ = 0;
  Message nodes_, inputs_, outputs_;  // of a GraphProto, each its own fields
  std::vector<std::pair<Value, torch::Tensor>> constants_;
};

}  // namespace coldframe::onnx
