#include <sstream>

#include "common/cli/error.h"
#include "common/cli/error_context.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "common/torch/error_text.h"
#include "extract/vit/backbone_kinds.h"
#include "extract/vit/checkpoint/stand_in.h"
#include "extract/vit/compiled/compiled_module.h"

namespace coldframe::vit {

namespace {

std::unique_ptr<CompiledModule> load_module(const std::string& path, const torch::Device& device,
                                            Precision precision) {
  const InputFile file(path);
  const std::string what = stand_in(file);
  if (!what.empty()) throw DataError(what);
  std::optional<ZipArchive> archive;
  try {
    archive.emplace(file);
  } catch (const DataError& error) {
    throw DataError(concat("it is neither a TorchScript module nor a package of AOTInductor: ",
                           error.what(), "; a state dict goes to --weights"));
  }
  return is_package(*archive) ? load_package(file, *archive, device)
                              : load_torchscript(file, device, precision);
}

std::string shape_of(const torch::IValue& value) {
  if (!value.isTensor()) return "a " + value.tagKind();
  std::ostringstream out;
  out << "a tensor of shape " << value.toTensor().sizes();
  return out.str();
}

class CompiledBackbone : public Backbone {
 public:
  CompiledBackbone(const BackboneOptions& options, const torch::Device& device, Precision precision)
      : path_(options.module.string()),
        image_size_(options.image_size),
        device_(device),
        precision_(precision) {
    in_context(concat("backbone '", path_, "'"), [&] {
      module_ = load_module(path_, device, precision);
      check();
      if (!options.check || precision == Precision::kFp32 || !module_->takes_precision()) return;
      const torch::Tensor images = options.check().images;
      if (images.defined()) hold_against_fp32(images, options.named_precision);
    });
    sha256_ = sha256_file(options.module);
  }

  torch::Tensor forward(const torch::Tensor& images) override {
    require_images(images, image_size_);
    return in_context(concat("backbone '", path_, "'"), [&] { return run(images); });
  }

  std::int64_t dimension() const override { return dimension_; }
  Precision precision() const override { return precision_; }

  Json describe() const override {
    Json json;
    json["kind"] = module_->kind();
    json["sha256"] = sha256_;
    json["dimension"] = dimension_;
    return json;
  }

 private:
  // Three images and the first of them alone: an output that ignores the batch, or mixes its
  // images, shows itself before the job begins.
  void check() {
    const std::int64_t count = 3 * 3 * image_size_.pixels();
    const torch::Tensor images = at::sin(at::arange(count, torch::kFloat32) * 12.9898f)
                                     .view({3, 3, image_size_.height, image_size_.width});
    const torch::Tensor together = run(images), alone = run(images.narrow(0, 0, 1));
    dimension_ = together.size(1);
    if (alone.size(1) != dimension_)
      throw DataError(concat("it returns ", alone.size(1), " features for one image and ",
                             dimension_, " for each of three"));
    if (!together.isfinite().all().item<bool>())
      throw DataError(concat("it returns features that are infinite or no number, in ",
                             to_string(precision_),
                             precision_ == Precision::kFp32 ? "" : "; use --precision fp32"));
    const torch::Tensor first = together.narrow(0, 0, 1);
    const double difference = (first - alone).abs().max().item<double>() /
                              alone.abs().max().clamp_min(1e-30f).item<double>();
    if (difference > (precision_ == Precision::kFp32 ? 0.01 : 0.1))
      throw DataError(concat("its features of an image depend on the images beside it (by ",
                             fixed(100 * difference, 1), " %); export the model in eval mode"));
  }

  // On the same device, which computes in fp32 where features stray.
  void hold_against_fp32(const torch::Tensor& images, bool named) {
    const Precision rounded = precision_;
    const torch::Tensor found = each_of(images);
    precision_ = Precision::kFp32;
    module_ = load_module(path_, device_, precision_);
    const double cosine = at::cosine_similarity(found, each_of(images)).min().item<double>();
    const bool strays = !(cosine >= kLeastCosine);  // NaN, too
    if (strays)
      return leave_precision(rounded, strays_by(cosine, device_), named, Precision::kFp32);
    precision_ = rounded;
    module_ = load_module(path_, device_, precision_);
  }

  // One image at a time: a check must not need more memory than the job.
  torch::Tensor each_of(const torch::Tensor& images) {
    std::vector<torch::Tensor> features;
    for (const torch::Tensor& image : images.split(1))
      features.push_back(run(image).to(torch::kCPU));
    return at::cat(features);
  }

  torch::Tensor run(const torch::Tensor& images) {
    const torch::InferenceMode guard;
    const torch::IValue output = output_of(images);
    if (!output.isTensor() || output.toTensor().dim() != 2 ||
        output.toTensor().size(0) != images.size(0) || !output.toTensor().is_floating_point())
      throw DataError(concat("it returns ", shape_of(output), ", expected [", images.size(0),
                             ", D]: one feature vector for each image"));
    return output.toTensor().to(torch::kFloat32).contiguous();
  }

  torch::IValue output_of(const torch::Tensor& images) {
    try {
      return module_->run(images.to(device_, scalar_type(precision_)).contiguous());
    } catch (const c10::OutOfMemoryError&) {
      throw;
    } catch (const std::exception& error) {
      // The interpreter and compiled code rethrow an operator's error as plain text.
      const std::string_view text = error.what();
      if (text.find("out of memory") != text.npos || text.find("allocate memory") != text.npos)
        throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, module_->cause_of(error));
      throw DataError(concat("it fails on ", images.size(0), " images of ", image_size_,
                             " pixels in ", to_string(precision_), ": ", module_->cause_of(error),
                             "; check --image-size and --precision, and ",
                             "that it was exported for any number of images"));
    }
  }

  std::string path_;
  ImageSize image_size_;
  torch::Device device_;
  Precision precision_;
  std::unique_ptr<CompiledModule> module_;
  std::string sha256_;
  std::int64_t dimension_ = 0;
};

}  // namespace

std::unique_ptr<Backbone> make_compiled_backbone(const BackboneOptions& options,
                                                 const torch::Device& device, Precision precision) {
  return std::make_unique<CompiledBackbone>(options, device, precision);
}

}  // namespace coldframe::vit
