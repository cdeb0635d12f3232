#include "train_temporal/fit/tune/tuned_source.h"

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/preprocess/normalization.h"
#include "extract/vit/checkpoint/checkpoint.h"
#include "extract/vit/published/published.h"
#include "extract/vit/resolve_architecture.h"
#include "extract/vit/vit.h"
#include "extract/vit/weights.h"

namespace coldframe::tune {
namespace {

// Keeps what a model takes of another source.
class Recorder : public vit::WeightSource {
 public:
  Recorder(vit::WeightSource& source, StateDict& taken) : source_(source), taken_(taken) {}
  torch::Tensor take(const std::string& name, torch::IntArrayRef shape) override {
    return taken_[name] = source_.take(name, shape);
  }

 private:
  vit::WeightSource& source_;
  StateDict& taken_;
};

ImageSize image_size_of(const Json& json) {
  if (json.is_array()) return {json.at(0).get<std::int64_t>(), json.at(1).get<std::int64_t>()};
  return json.get<std::int64_t>();
}

torch::Tensor levels_of(const Json& preprocessing) {
  const auto resampler =
      value_for(preprocess::kResamplers, preprocessing.at("resampler").get<std::string>());
  if (!resampler) throw DataError("the recipe's resampler is not known");
  auto table = preprocess::normalization_table(*resampler,
                                               preprocessing.at("mean").get<std::array<float, 3>>(),
                                               preprocessing.at("std").get<std::array<float, 3>>());
  return torch::from_blob(table.data(), {3, 256}).clone();
}

// The tensors of a file that must have this digest.
StateDict read_weights(const std::filesystem::path& weights, const std::string& digest,
                       bool projected) {
  const vit::WeightFiles files = vit::find_weight_files(weights);
  const std::string found = vit::digest_of(files);
  if (found != digest)
    throw DataError(concat("weights '", weights.string(), "' are not those that the cache was ",
                           "made with: their SHA-256 is ", found, ", expected ", digest,
                           "; give the file that it was extracted with"));
  vit::CanonicalWeights canonical = vit::canonical_names(vit::load_weights(files));
  if (projected) canonical.tensors.merge(std::move(canonical.projection));
  return std::move(canonical.tensors);
}

}  // namespace

RecipeShape read_shape(const Json& recipe) {
  const Json backbone = recipe.value("backbone", Json::object());
  const std::string kind = backbone.value("kind", "");
  if (kind != "vit" && kind != "random")
    throw ConfigError("only ViTs can be tuned, and this cache was made with another backbone");
  RecipeShape shape;
  shape.architecture = vit::architecture_from_json(backbone.at("architecture"));
  shape.features.pooling = vit::parse_pooling(backbone.at("pooling").get<std::string>());
  if (backbone.contains("layers"))
    shape.features.layers = backbone["layers"].get<std::vector<std::int64_t>>();
  shape.features.projection = backbone.contains("projection");
  if (shape.features.projection) shape.projected = backbone["projection"].get<std::int64_t>();
  shape.image_size = image_size_of(recipe.at("preprocessing").at("image_size"));
  vit::check_features(shape.features, shape.architecture);
  return shape;
}

TunedSource::TunedSource(const Json& recipe, std::int64_t cut, const std::filesystem::path& weights,
                         const std::string& digest)
    : shape_(read_shape(recipe)), cut_(cut), levels_(levels_of(recipe.at("preprocessing"))) {
  check_cut();
  const Json& backbone = recipe.at("backbone");
  const std::string kind = backbone.at("kind").get<std::string>();
  if (weights.empty() && kind == "vit")
    throw ConfigError(concat("--tune needs the weights that the cache was made with, of SHA-256 ",
                             backbone.value("sha256", "")));
  const auto take_all = [&](vit::WeightSource& source) {
    Recorder recorder(source, tensors_);
    vit::VisionTransformer(vit::Scope(recorder), shape_.architecture, shape_.image_size,
                           shape_.projected);
  };
  if (weights.empty()) {
    if (backbone.value("generator", "") != vit::kRandomWeightsVersion)
      throw ConfigError("this program cannot make the random weights of this cache; extract anew");
    vit::RandomSource random(backbone.at("seed").get<std::uint64_t>());
    take_all(random);
    return;
  }
  if (kind == "random" && digest.empty())
    throw ConfigError(
        "the cache was made with random weights; tune those, without a file of weights");
  StateDict read = read_weights(weights, digest.empty() ? backbone.value("sha256", "") : digest,
                                shape_.projected > 0);
  in_context(concat("weights '", weights.string(), "'"), [&] {
    // Tuned positions may be of another grid than those that they were made of.
    shape_.architecture.position_grid = vit::read_architecture(read).position_grid;
    vit::StateDictSource source(std::move(read));
    take_all(source);
    source.finish();
  });
}

void TunedSource::check_cut() const {
  const auto& [architecture, features, image_size, projected] = shape_;
  if (cut_ < 0 || cut_ > architecture.depth)
    throw DataError(concat("the cache holds what enters block ", cut_, ", and its ViT has ",
                           architecture.depth));
  if (vit::layers_of(features, architecture).front() < cut_)
    throw ConfigError(concat("the features are made of layer ", features.layers.front(),
                             " too, which lies before the cut at block ", cut_,
                             "; extract with --cut ", features.layers.front(), " or less"));
}

std::string TunedSource::model_name() const {
  const auto key = [](vit::Architecture shape) {
    shape.position_grid = 0;  // these may differ in a model's checkpoints
    shape.norm = shape.fc_norm = false;
    return vit::to_json(shape).dump();
  };
  for (const vit::Published& model : vit::published_models())
    if (key(model.architecture) == key(shape_.architecture)) return model.name;
  return "";
}

torch::Tensor TunedSource::shared(const std::string& name, const torch::Device& device) const {
  const torch::Tensor& tensor = tensors_.at(name);
  if (device.is_cpu()) return tensor;
  const std::lock_guard lock(mutex_);
  torch::Tensor& copy = on_device_[{device.str(), name}];
  if (!copy.defined()) copy = tensor.to(device);
  return copy;
}

}  // namespace coldframe::tune
