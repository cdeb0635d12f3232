#include <cmath>
#include <map>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/vit/config/json_values.h"
#include "extract/vit/config/kinds.h"

namespace coldframe::vit {

namespace {

constexpr const char* kElse =
    "; take the file away and give --image-size, --resize, --interpolation, --mean and --std";

// A processor of transformers 5 has these defaults where its file leaves them out
// (transformers/models/*/image_processing_*.py).
struct Processor {
  std::string_view name;  // before ImageProcessor, ImageProcessorFast or FeatureExtractor
  bool shortest;          // a lone number is the shortest edge's, not both edges'
  const char* defaults;
};
constexpr Processor kProcessors[] = {
    {"ViT", false, R"({"resample": 2, "size": 224, "image_mean": 0.5, "image_std": 0.5})"},
    {"DeiT", false, R"({"resample": 3, "size": 256, "do_center_crop": true, "crop_size": 224,
                        "image_mean": 0.5, "image_std": 0.5})"},
    {"Beit", false, R"({"resample": 3, "size": {"height": 224, "width": 224}, "crop_size": 224,
                        "image_mean": 0.5, "image_std": 0.5})"},
    {"CLIP", true, R"({"resample": 3, "size": 224, "do_center_crop": true, "crop_size": 224,
                       "image_mean": [0.48145466, 0.4578275, 0.40821073],
                       "image_std": [0.26862954, 0.26130258, 0.27577711]})"},
    {"Bit", true, R"({"resample": 3, "size": 224, "do_center_crop": true, "crop_size": 224,
                      "image_mean": [0.48145466, 0.4578275, 0.40821073],
                      "image_std": [0.26862954, 0.26130258, 0.27577711]})"},
    {"Siglip", true, R"({"resample": 3, "size": {"height": 224, "width": 224},
                         "image_mean": 0.5, "image_std": 0.5})"},
    {"DINOv3ViT", false, R"({"resample": 2, "size": 224, "image_mean": [0.485, 0.456, 0.406],
                             "image_std": [0.229, 0.224, 0.225]})"},
};

// models/auto/image_processing_auto.py: which processor a model has whose file names none.
const std::map<std::string, std::string_view>& processor_of_model() {
  static const auto* table =
      new std::map<std::string, std::string_view>{{"vit", "ViT"},
                                                  {"vit_mae", "ViT"},
                                                  {"ijepa", "ViT"},
                                                  {"deit", "DeiT"},
                                                  {"beit", "Beit"},
                                                  {"dinov2", "Bit"},
                                                  {"clip", "CLIP"},
                                                  {"clip_vision_model", "CLIP"},
                                                  {"siglip", "Siglip"},
                                                  {"siglip_vision_model", "Siglip"},
                                                  {"dinov3_vit", "DINOv3ViT"},
                                                  {"dinov2_with_registers", "Bit"}};
  return *table;
}

std::string bare_name(std::string type, const std::string& model_type) {
  if (type.empty()) {
    const auto found = processor_of_model().find(model_type);
    return found == processor_of_model().end() ? "" : std::string(found->second);
  }
  for (const std::string_view end : {"Fast", "ImageProcessor", "FeatureExtractor"})
    if (type.ends_with(end)) type.erase(type.size() - end.size());
  return type == "BEiT" ? "Beit" : type;
}

const Processor& processor_named(const std::string& type, const std::string& model_type) {
  const std::string name = bare_name(type, model_type);
  std::vector<std::string> known;
  for (const Processor& processor : kProcessors) {
    if (name == processor.name) return processor;
    known.emplace_back(processor.name);
  }
  throw DataError(concat("'image_processor_type' is '", type, "', expected one of ",
                         join(known, ", "), " with ImageProcessor behind it", kElse));
}

// transformers keeps a null, and takes a step of it for one that is not to be done; other nulls say
// nothing.
Json without_nulls(const Json& stated) {
  Json said = Json::object();
  for (const auto& [key, value] : stated.items()) {
    if (!value.is_null())
      said[key] = value;
    else if (key.starts_with("do_"))
      said[key] = false;
  }
  return said;
}

void refuse_other_steps(const Json& processor) {
  if (processor.contains("max_num_patches"))
    throw DataError(
        concat("'max_num_patches' is of images that keep their own shapes (SigLIP2 NaFlex), which "
               "is not supported; use a checkpoint for one size",
               kElse));
  if (!truth(processor, "do_resize").value_or(true))
    throw DataError(
        concat("'do_resize' is false: frames would have sizes of their own, which is "
               "not supported",
               kElse));
  for (const char* step : {"do_pad", "do_flip_channel_order", "do_thumbnail", "do_align_long_axis"})
    if (truth(processor, step).value_or(false))
      throw DataError(concat("'", step, "' is not supported", kElse));
  const double factor = number(processor, "rescale_factor").value_or(1 / 255.0);
  if (!truth(processor, "do_rescale").value_or(true) || std::abs(factor * 255 - 1) > 1e-6)
    throw DataError(concat("pixels are not scaled to 0…1, which is not supported", kElse));
}

std::optional<std::int64_t> square(const Json& size, const char* key) {
  const auto height = whole_number(size, "height"), width = whole_number(size, "width");
  if (height != width)
    throw DataError(concat("'", key, "' is ", size.dump().substr(0, 60),
                           ", and only squares are read from a processor's file", kElse));
  return height;
}

// `size` or `crop_size` as an object; a lone number is a square's unless it is the shortest edge's.
Json size_object(const Json& processor, const char* key, bool shortest) {
  if (!processor.contains(key)) return Json::object();
  if (processor[key].is_object()) return processor[key];
  const auto edge = side(processor, key);
  if (shortest && processor[key].is_number()) return {{"shortest_edge", *edge}};
  return {{"height", *edge}, {"width", *edge}};
}

void read_size(const Json& processor, bool lone_is_shortest, PixelConfig& pixels) {
  const Json size = size_object(processor, "size", lone_is_shortest);
  const bool crops = truth(processor, "do_center_crop").value_or(false);
  const auto shortest = whole_number(size, "shortest_edge");
  for (const char* key : {"longest_edge", "max_height", "max_width", "min_pixels", "max_pixels"})
    if (size.contains(key))
      throw DataError(concat("'size' has '", key, "', which is not supported", kElse));
  if (shortest && !crops)
    throw DataError(
        "'size' states the shortest edge alone, without a crop: frames would have "
        "sizes of their own, which is not supported; give --image-size and --resize");
  const auto scaled = shortest ? shortest : square(size, "size");
  const auto target =
      crops ? square(size_object(processor, "crop_size", false), "crop_size") : scaled;
  if (!scaled || !target || *target < 1 || *target > 4096 || *scaled < *target)
    throw DataError(concat("'size' is ", size.dump().substr(0, 60),
                           ", expected height and width, "
                           "or the shortest edge and a 'crop_size' within"));
  pixels.image_size = static_cast<int>(*target);
  pixels.resize = shortest ? "shortest" : "squash";
  // Resizing goes to floor(size / crop_pct): a little less than the quotient keeps its floor.
  pixels.crop_pct = *scaled == *target
                        ? 1.0
                        : static_cast<double>(*target) / (static_cast<double>(*scaled) + 1e-6);
}

}  // namespace

PixelConfig read_image_processor(const Json& stated, const std::string& model_type) {
  if (!stated.is_object()) throw DataError("it holds no object");
  const Json said = without_nulls(stated);
  refuse_other_steps(said);
  const std::string type = word(said, "image_processor_type")
                               .value_or(word(said, "feature_extractor_type").value_or(""));
  const Processor& kind = processor_named(type, model_type);
  Json processor = parse_json(kind.defaults, kind.name);
  processor.update(said);
  PixelConfig pixels;
  read_size(processor, kind.shortest, pixels);
  if (truth(processor, "do_normalize").value_or(true)) {
    pixels.mean = channels(processor, "image_mean");
    pixels.std = deviations(processor, "image_std");
  } else {
    pixels.mean = {{0, 0, 0}};
    pixels.std = {{1, 1, 1}};
  }
  // Pillow's numbers of filters.
  static const std::map<std::int64_t, std::string> filters{
      {0, "nearest"}, {1, "lanczos"}, {2, "bilinear"}, {3, "bicubic"}, {4, "box"}, {5, "hamming"}};
  const auto resample = filters.find(whole_number(processor, "resample").value_or(-1));
  pixels.interpolation =
      interpolation_word(resample == filters.end() ? "unknown" : resample->second);
  pixels.resampler = "transformers";
  return pixels;
}

}  // namespace coldframe::vit
