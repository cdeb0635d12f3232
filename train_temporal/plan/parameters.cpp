#include "train_temporal/plan/parameters.h"

#include "extract/vit/vit.h"
#include "train_temporal/tune/trained_parameters.h"

namespace coldframe::plan {
namespace {

// Names and shapes without memory.
class ShapesOnly : public vit::WeightSource {
 public:
  explicit ShapesOnly(const tune::ChainShape& shape) : shape_(shape) {}
  torch::Tensor take(const std::string& name, torch::IntArrayRef sizes) override {
    torch::Tensor tensor = torch::empty(sizes, torch::kMeta);
    found_.all += static_cast<std::uint64_t>(tensor.numel());
    found_.trained += static_cast<std::uint64_t>(tune::trained_values(shape_, name, sizes));
    return tensor;
  }
  ParameterCount found() const { return found_; }

 private:
  const tune::ChainShape& shape_;
  ParameterCount found_;
};

}  // namespace

ParameterCount count_parameters(const tune::ChainShape& shape) {
  ShapesOnly shapes(shape);
  vit::VisionTransformer model(vit::Scope(shapes), shape.architecture, shape.image_size,
                               shape.projected);
  return shapes.found();
}

}  // namespace coldframe::plan
