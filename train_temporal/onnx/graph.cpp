#include "train_temporal/onnx/graph.h"

#include <cmath>

#include "common/cli/cli.h"
#include "common/cli/error.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"

namespace coldframe::onnx {
namespace {

constexpr std::int64_t kIrVersion = 8, kOpset = 17;
constexpr std::int64_t kFloat = 1, kInt64 = 7;                     // TensorProto.DataType
constexpr std::int64_t kIsFloat = 1, kIsInt = 2, kIsIntegers = 7;  // AttributeProto.AttributeType
constexpr std::uint64_t kSmall = 1024;  // bytes; shapes and the like stay inside, as checkers want
constexpr std::uint64_t kAlignment = 64;

Message entry(const std::string& key, const std::string& value) {  // StringStringEntryProto
  return Message().text(1, key).text(2, value);
}

Message attribute(const std::string& name, const Attribute& value) {
  Message proto = Message().text(1, name);
  if (const auto* number = std::get_if<std::int64_t>(&value))
    return proto.number(3, *number).number(20, kIsInt);
  if (const auto* real = std::get_if<float>(&value))
    return proto.float32(2, *real).number(20, kIsFloat);
  for (const std::int64_t number : std::get<Integers>(value)) proto.number(8, number);
  return proto.number(20, kIsIntegers);
}

Message value_info(const std::string& name, const Dimensions& shape) {
  Message dimensions;
  for (const auto& dimension : shape) {
    Message one;
    if (const auto* size = std::get_if<std::int64_t>(&dimension))
      one.number(1, *size);
    else
      one.text(2, std::get<std::string>(dimension));
    dimensions.message(1, one);
  }
  const Message tensor = Message().number(1, kFloat).message(2, dimensions);
  return Message().text(1, name).message(2, Message().message(1, tensor));
}

std::string_view bytes_of(const torch::Tensor& tensor) {
  return {static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()};
}

// A TensorProto without its numbers.
Message described(const Value& name, const torch::Tensor& tensor) {
  Message proto;
  for (const std::int64_t size : tensor.sizes()) proto.number(1, size);
  return proto.number(2, tensor.scalar_type() == torch::kInt64 ? kInt64 : kFloat).text(8, name);
}

}  // namespace

void Graph::take(const std::string& name) {
  if (taken_.insert(name).second) return;
  throw ConfigError(concat("--onnx cannot have two values of the name '", name,
                           "': the graph has its own; train with a --target of another name"));
}

// Targets name outputs, and may be called anything.
Value Graph::fresh() {
  const Value name = "/value_" + std::to_string(values_++);
  take(name);
  return name;
}

Value Graph::input(const std::string& name, const Dimensions& shape) {
  take(name);
  inputs_.message(11, value_info(name, shape));
  return name;
}

void Graph::output(const Value& value, const std::string& name, const Dimensions& shape) {
  take(name);
  nodes_.message(1, Message().text(1, value).text(2, name).text(4, "Identity"));
  outputs_.message(12, value_info(name, shape));
}

Value Graph::constant(const torch::Tensor& tensor) {
  const bool integers = tensor.scalar_type() == torch::kInt64;
  const Value name = fresh();
  constants_.emplace_back(
      name,
      tensor.detach().to(torch::kCPU, integers ? torch::kInt64 : torch::kFloat32).contiguous());
  return name;
}

Value Graph::constant(const Integers& values) {
  return constant(torch::tensor(values, torch::kInt64));
}

Value Graph::constant(double value) {
  return constant(torch::full({}, value, torch::kFloat32));
}

Value Graph::add(const char* type, const std::vector<Value>& inputs, const Attributes& attributes) {
  return add(type, inputs, attributes, 1).front();
}

std::vector<Value> Graph::add(const char* type, const std::vector<Value>& inputs,
                              const Attributes& attributes, std::size_t outputs) {
  Message node;
  for (const Value& input : inputs) node.text(1, input);
  std::vector<Value> results;
  for (std::size_t i = 0; i < outputs; ++i) node.text(2, results.emplace_back(fresh()));
  node.text(4, type);
  for (const auto& [name, value] : attributes) node.message(5, attribute(name, value));
  nodes_.message(1, node);
  return results;
}

Value Graph::linear(const Value& x, const torch::Tensor& weight, const torch::Tensor& bias) {
  const Value product = add("MatMul", {x, constant(weight.t())});
  return bias.defined() ? add("Add", {product, constant(bias)}) : product;
}

Value Graph::reshape(const Value& x, const Integers& shape) {
  return add("Reshape", {x, constant(shape)});
}

Value Graph::transpose(const Value& x, const Integers& order) {
  return add("Transpose", {x}, {{"perm", order}});
}

Value Graph::slice(const Value& x, std::int64_t axis, std::int64_t from, std::int64_t to) {
  return add("Slice",
             {x, constant(Integers{from}), constant(Integers{to}), constant(Integers{axis})});
}

Value Graph::gelu(const Value& x) {
  const Value share = add("Erf", {add("Mul", {x, constant(std::sqrt(0.5))})});
  return add("Mul", {add("Mul", {x, constant(0.5)}), add("Add", {share, constant(1.0)})});
}

void Graph::write(const std::filesystem::path& path,
                  const std::map<std::string, std::string>& facts, std::uint64_t inside) const {
  std::uint64_t total = 0;
  for (const auto& [name, tensor] : constants_) total += tensor.nbytes();
  const std::filesystem::path data_path = path.string() + ".data";
  Message graph = Message().text(2, name_);
  std::optional<AtomicFile> data;
  if (total > inside) data.emplace(data_path);
  std::string fields = nodes_.bytes() + graph.bytes();
  for (const auto& [name, tensor] : constants_) {
    Message proto = described(name, tensor);
    if (!data || tensor.nbytes() <= kSmall) {
      proto.text(9, bytes_of(tensor));
    } else {
      data->append(std::string((kAlignment - data->size() % kAlignment) % kAlignment, '\0'));
      const std::uint64_t offset = data->size();
      data->append(bytes_of(tensor));
      proto.message(13, entry("location", data_path.filename().string()))
          .message(13, entry("offset", std::to_string(offset)))
          .message(13, entry("length", std::to_string(tensor.nbytes())))
          .number(14, 1);
    }
    fields += Message().message(5, proto).bytes();
  }
  fields += inputs_.bytes() + outputs_.bytes();
  Message model = Message().number(1, kIrVersion).text(2, "coldframe").text(3, kVersion);
  model.text(7, fields).message(8, Message().text(1, "").number(2, kOpset));
  for (const auto& [key, value] : facts) model.message(14, entry(key, value));
  if (data) data->finish();
  write_file_atomically(path, model.bytes());
}

}  // namespace coldframe::onnx
