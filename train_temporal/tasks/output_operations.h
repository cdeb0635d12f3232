// The arithmetic by which a task explains a model's outputs: LibTorch computes it with its
// gradients, which tasks know nothing of.
#pragma once

#include <cstddef>
#include <vector>

namespace coldframe::temporal {

class OutputOperations {
 public:
  virtual ~OutputOperations() = default;

  enum class Value : std::size_t {};  // a table [..., C], by its number

  virtual Value divided(Value x, double divisor) = 0;
  virtual Value softmax(Value x) = 0;
  virtual Value sigmoid(Value x) = 0;
  virtual Value cumulative_product(Value x) = 0;  // over the columns
  // [..., 1]: the sum of the columns, each by its weight [C].
  virtual Value sum(Value x, const std::vector<double>& weights) = 0;
  virtual Value column(Value x, std::size_t number) = 0;  // [..., 1]
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
