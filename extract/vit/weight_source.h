// A layer's parameters come from a checkpoint, or from random numbers. Layers ask for each by its
// name and shape as they are built, so that nothing is allocated that the source does not have.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/torch/safetensors.h"
#include "common/torch/tensor.h"

namespace coldframe::vit {

class WeightSource {
 public:
  virtual ~WeightSource() = default;
  // A float32 tensor of that shape on the CPU.
  virtual torch::Tensor take(const std::string& name, torch::IntArrayRef shape) = 0;
};

// A place in the tree of names: Scope(source) / "blocks" / 3 / "norm1".
class Scope {
 public:
  explicit Scope(WeightSource& source) : source_(&source) {}

  Scope operator/(const std::string& name) const { return Scope(*source_, prefix_ + name + "."); }
  Scope operator/(std::int64_t index) const { return *this / std::to_string(index); }
  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) const {
    return source_->take(prefix_ + name, shape);
  }

 private:
  Scope(WeightSource& source, std::string prefix) : source_(&source), prefix_(std::move(prefix)) {}

  WeightSource* source_;
  std::string prefix_;
};

// The tensors of a checkpoint, each of which must be taken exactly once.
class StateDictSource : public WeightSource {
 public:
  explicit StateDictSource(StateDict tensors) : tensors_(std::move(tensors)) {}

  // Notes what is missing or of another shape, and returns an empty tensor of the shape.
  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override;
  // DataError names what was missing, misshapen or left over.
  void finish() const;

 private:
  StateDict tensors_;
  std::vector<std::string> problems_;
};

}  // namespace coldframe::vit
