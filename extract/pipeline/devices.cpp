#include "extract/pipeline/devices.h"

#include <algorithm>
#include <cstring>
#include <future>

#include "cache/store/parts.h"
#include "common/cli/error.h"
#include "common/system/gpu_libraries.h"
#include "common/text/text.h"
#include "common/torch/device.h"
#include "extract/input/exam_list.h"
#include "extract/pipeline/batch.h"
#include "extract/pipeline/decode_stage.h"

namespace coldframe::extract {

ComputeDevices::ComputeDevices(const std::vector<std::string>& words, int threads) {
  for (const std::string& word : words) devices_.push_back(resolve_device(word));
  if (threads) set_torch_threads(threads);
  const auto on_cpu =
      static_cast<int>(std::count_if(devices_.begin(), devices_.end(),
                                     [](const torch::Device& device) { return device.is_cpu(); }));
  if (on_cpu > 1) set_torch_threads(std::max(1, torch::get_num_threads() / on_cpu));
}

void ComputeDevices::load(
    const std::function<std::unique_ptr<vit::Backbone>(const torch::Device&)>& make) {
  backbones_.clear();
  for (const torch::Device& device : devices_) backbones_.push_back(make(device));
}

std::vector<ComputeDevice> ComputeDevices::all() const {
  std::vector<ComputeDevice> all;
  for (std::size_t i = 0; i < backbones_.size(); ++i)
    all.push_back({devices_[i], backbones_[i].get()});
  return all;
}

std::string ComputeDevices::names() const {
  std::vector<std::string> names;
  for (const torch::Device& device : devices_) names.push_back(device_name(device));
  return join(names, ", ");
}

std::vector<std::string> ComputeDevices::gpus() const {
  std::vector<std::string> ids;
  for (const torch::Device& device : devices_)
    if (device.is_cuda()) ids.push_back(cuda_driver::pci_bus_id(device.index()));
  return ids;
}

namespace {

// [at most count, …], each as input_shape() says
torch::Tensor read_first(const frames::ExamList& input, const ExtractOptions& options,
                         std::int64_t count) {
  const StageTimer timer(options.backbone.times.get(), "first_frames");
  DecodeSettings settings;
  settings.preprocessing = options.preprocessing;
  settings.selection = options.selection;
  settings.reader = options.reader;
  const InputShape shape = input_shape(options.preprocessing, options.selection.windows.frames);
  std::vector<std::int64_t> sizes = shape.sizes;
  sizes.insert(sizes.begin(), count);
  const torch::Tensor frames = torch::empty(sizes, shape.type);

  DecodedQueue queue(shape.bytes(), 1, static_cast<std::size_t>(count));
  const DecodeStage decoder(input, settings, queue);
  std::int64_t found = 0;
  while (found < count) {
    const auto decoded = queue.pop();
    if (!decoded) break;
    if (const auto* window = std::get_if<DecodedWindow>(&*decoded))
      std::memcpy(frames[found++].data_ptr(), window->pixels.data(), window->pixels.size());
  }
  return frames.narrow(0, 0, found);
}

}  // namespace

std::function<vit::CheckInput()> first_frames(const frames::ExamList& input,
                                              const ExtractOptions& options, std::int64_t count) {
  const auto reading =
      std::async([&input, &options, count] { return read_first(input, options, count); }).share();
  return [reading, &options]() -> vit::CheckInput {
    const torch::Tensor& frames = reading.get();
    if (frames.size(0) == 0) return {};
    const DeviceInput normalise(options.preprocessing, torch::kCPU);
    return {normalise(frames), frames, normalise.levels()};
  };
}

namespace {

// All parts of a job must do this identically.
Json kind_of(const std::string& precision, const torch::Device& device) {
  return {{"precision", precision}, {"device", device.is_cuda() ? "cuda" : "cpu"}};
}

void require_agreement(const cache::Location& location, const Json& agreed, const Json& own) {
  if (agreed == own) return;
  throw CacheError(concat(
      "the first part computes in ", agreed.value("precision", "?"), " on ",
      agreed.value("device", "?"), ", this one would in ", own.value("precision", "?"), " on ",
      own.value("device", "?"), "; run it on a machine like the first one's, with --precision ",
      agreed.value("precision", "auto"),
      ", or give --allow-mixed-precision; if the first part ran on the wrong ",
      "machine and nothing is stored yet, remove ", cache::agreement_path(location).string()));
}

// None where the first device finds it out.
std::optional<Precision> decide_precision(const ExtractOptions& options,
                                          const cache::CacheReader* cached,
                                          const torch::Device& device) {
  const bool has_one = cached && cached->precisions().size() == 1;
  if (options.precision == "auto" && has_one)
    return parse_precision(cached->precisions().front(), device);
  const std::optional<Precision> named =
      options.precision == "auto" ? std::nullopt
                                  : std::optional(parse_precision(options.precision, device));
  if (cached && !options.allow_mixed_precision &&
      cached->precisions() != std::vector{options.precision})
    throw CacheError(concat("the cache was computed in ", join(cached->precisions(), " and "),
                            ", this run would compute in ",
                            named ? options.precision : "one of them", "; give ",
                            has_one ? "--precision " + cached->precisions().front() + ", " : "",
                            "another --out, or --allow-mixed-precision"));
  return named;
}

bool has_large_inputs(const ExtractOptions& options) {
  return options.selection.windows.is_of_clips() || options.preprocessing.volume.is_on();
}

}  // namespace

void load_backbones(ComputeDevices& devices, const ExtractOptions& options,
                    const frames::ExamList& input, const cache::CacheReader* cached,
                    const cache::Location* shared) {
  std::optional<Precision> precision = decide_precision(options, cached, devices.first());
  bool decided = precision && cached;
  const auto agreed = shared ? cache::agreement(*shared) : std::nullopt;
  if (agreed && !decided && options.precision == "auto") {
    precision = parse_precision(agreed->value("precision", "fp32"), devices.first());
    decided = true;
  }
  std::function<vit::CheckInput()> check;  // read once, concurrently with the weights
  const auto make = [&](const torch::Device& device) {
    vit::BackboneOptions wanted = options.backbone;
    wanted.named_precision = options.precision != "auto";
    if (vit::is_compared(wanted, device, precision)) {
      if (!check) check = first_frames(input, options, has_large_inputs(options) ? 2 : 4);
      wanted.check = check;
    }
    auto backbone = vit::make_backbone(wanted, device, precision);
    if (decided && backbone->precision() != precision)
      throw SystemError(concat(device.str(), " strays in ", to_string(*precision),
                               ", in which the rest is computed; use another device, or begin "
                               "another --out on it"));
    decided = true;
    precision = backbone->precision();
    return backbone;
  };
  devices.load(make);
  if (!shared || options.allow_mixed_precision) return;
  const Json own = kind_of(to_string(*precision), devices.first());
  const Json kept = cache::agree(*shared, own);
  // Parts that start together each choose a precision; the first one's is used.
  if (options.precision == "auto" &&
      kept == kind_of(kept.value("precision", ""), devices.first()) && kept != own) {
    precision = parse_precision(kept.at("precision"), devices.first());
    return devices.load(make);
  }
  require_agreement(*shared, kept, own);
}

}  // namespace coldframe::extract
