#include <torch/script.h>

#include "common/cli/error.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "common/torch/error_text.h"
#include "extract/vit/backbone_kinds.h"
#include "extract/vit/checkpoint/stand_in.h"

namespace coldframe::vit {

namespace {

// The interpreter puts its own trace first and the cause last.
std::string cause_of(const std::exception& error) {
  const std::string text = error_text(error);
  const std::size_t cause = text.rfind("RuntimeError: ");
  if (cause == std::string::npos) return first_line(error);
  return text.substr(cause, text.find('\n', cause) - cause);
}

class TorchscriptBackbone : public Backbone {
 public:
  TorchscriptBackbone(const BackboneOptions& options, const torch::Device& device,
                      Precision precision)
      : path_(options.torchscript.string()),
        image_size_(options.image_size),
        device_(device),
        precision_(precision) {
    load();
    sha256_ = sha256_file(options.torchscript);
    // Two images, so that an output which ignores the batch shows itself.
    dimension_ = run(torch::zeros({2, 3, image_size_, image_size_})).size(1);
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    require_images(images, image_size_);
    return run(images);
  }

  std::int64_t dimension() const override { return dimension_; }
  Precision precision() const override { return precision_; }

  Json describe() const override {
    Json json;
    json["kind"] = "torchscript";
    json["sha256"] = sha256_;
    json["dimension"] = dimension_;
    return json;
  }

 private:
  void load() {
    try {
      module_ = torch::jit::load(path_, device_);
      module_.eval();
      if (precision_ != Precision::kFp32) module_.to(scalar_type(precision_));
    } catch (const std::exception& error) {
      const std::string what = stand_in(InputFile(path_));
      if (!what.empty()) throw DataError(concat("backbone '", path_, "': ", what));
      throw DataError(concat("backbone '", path_, "' is no readable TorchScript module: ",
                             cause_of(error), "; a state dict goes to --weights"));
    }
  }

  torch::Tensor run(const torch::Tensor& images) {
    const torch::InferenceMode guard;
    torch::jit::IValue output;
    try {
      output = module_.forward({images.to(device_, scalar_type(precision_))});
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      // The interpreter rethrows an operator's error as plain text.
      const std::string_view text = error.what();
      if (text.find("out of memory") != text.npos || text.find("allocate memory") != text.npos)
        throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, cause_of(error));
      throw DataError(concat("backbone '", path_, "' fails on ", images.size(0), " images of ",
                             image_size_, "×", image_size_, " pixels in ", to_string(precision_),
                             ": ", first_line(error), "; check --image-size",
                             precision_ == Precision::kFp32 ? "" : ", or use --precision fp32"));
    }
    if (!output.isTensor() || output.toTensor().dim() != 2 ||
        output.toTensor().size(0) != images.size(0) || !output.toTensor().is_floating_point())
      throw DataError(concat("backbone '", path_, "' returns ", shape_of(output), ", expected [",
                             images.size(0), ", D]: one feature vector for each image"));
    return output.toTensor().to(torch::kCPU, torch::kFloat32).contiguous();
  }

  static std::string shape_of(const torch::jit::IValue& value) {
    if (!value.isTensor()) return "a " + value.tagKind();
    std::ostringstream out;
    out << "a tensor of shape " << value.toTensor().sizes();
    return out.str();
  }

  std::string path_;
  std::int64_t image_size_;
  torch::Device device_;
  Precision precision_;
  torch::jit::Module module_;
  std::string sha256_;
  std::int64_t dimension_ = 0;
};

}  // namespace

std::unique_ptr<Backbone> make_torchscript_backbone(const BackboneOptions& options,
                                                    const torch::Device& device,
                                                    Precision precision) {
  return std::make_unique<TorchscriptBackbone>(options, device, precision);
}

}  // namespace coldframe::vit
