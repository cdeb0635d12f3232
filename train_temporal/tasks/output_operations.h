// The arithmetic by which a task reads a model's outputs, spelled once for whoever interprets it:
// nodes of an ONNX graph, and LibTorch where gradients are wanted.
#pragma once

#include <cstddef>
#include <vector>

namespace coldframe::temporal {

class OutputOperations {
 public:
  virtual ~OutputOperations() = default;

  enum class Value : std::size_t {};  // a table [..., C], by its number

  virtual Value plus(Value x, const std::vector<double>& to_each) = 0;  // [C], or of x [..., 1]
  virtual Value times(Value x, double factor) = 0;
  virtual Value divided(Value x, double divisor) = 0;
  virtual Value softmax(Value x) = 0;
  virtual Value sigmoid(Value x) = 0;
  virtual Value softplus(Value x) = 0;
  virtual Value exponential(Value x) = 0;
  virtual Value cumulative_product(Value x) = 0;  // over the columns
  // `weights` [R, C]: the sums of the columns, each by its weight, [..., R].
  virtual Value sums(Value x, const std::vector<double>& weights) = 0;
  virtual Value columns(Value x, std::size_t from, std::size_t to) = 0;
  virtual Value joined(Value x, Value y) = 0;  // columns of both
};

// An interpreter keeps what its values stand for.
template <class Kept>
class KeepingOperations : public OutputOperations {
 public:
  Value keep(Kept kept) {
    kept_.push_back(std::move(kept));
    return Value{kept_.size() - 1};
  }
  const Kept& at(Value x) const { return kept_[static_cast<std::size_t>(x)]; }

 private:
  std::vector<Kept> kept_;
};

}  // namespace coldframe::temporal
