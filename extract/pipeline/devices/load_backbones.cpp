#include "extract/pipeline/devices/load_backbones.h"

#include "cache/store/parts.h"
#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/pipeline/devices/first_frames.h"

namespace coldframe::extract {
namespace {

// The parts of a job must do this alike.
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
  std::function<vit::CheckInput()> check;  // read once, beside the weights
  const auto make = [&](const torch::Device& device) {
    vit::BackboneOptions wanted = options.backbone;
    wanted.named_precision = options.precision != "auto";
    if (vit::is_compared(wanted, device, precision)) {
      if (!check) check = first_frames(input, options, 4);
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
  // Parts that begin together each find a precision out; the first one's holds.
  if (options.precision == "auto" &&
      kept == kind_of(kept.value("precision", ""), devices.first()) && kept != own) {
    precision = parse_precision(kept.at("precision"), devices.first());
    return devices.load(make);
  }
  require_agreement(*shared, kept, own);
}

}  // namespace coldframe::extract
