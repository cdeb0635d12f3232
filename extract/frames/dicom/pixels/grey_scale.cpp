#include "extract/frames/dicom/pixels/grey_scale.h"

#include <algorithm>
#include <cmath>

namespace coldframe::frames::dicom {

std::uint8_t Voi::apply(double value) const {
  if (table) return to_level(table->at(value), {0, table->greatest()});
  switch (function) {
    case Function::kLinear:
      return to_level(value, {center - 0.5 - (width - 1) / 2, center - 0.5 + (width - 1) / 2});
    case Function::kLinearExact:
      return to_level(value, {center - width / 2, center + width / 2});
    case Function::kSigmoid:
      break;  // below
  }
  return to_level(1 / (1 + std::exp(-4 * (value - center) / width)), {0, 1});
}

Modality read_rescale(DcmItem& item) {
  Modality modality;
  modality.slope = number_of(item, DCM_RescaleSlope, 1);
  modality.intercept = number_of(item, DCM_RescaleIntercept, 0);
  if (modality.slope == 0) modality.slope = 1;
  return modality;
}

std::optional<Voi> read_window(DcmItem& item) {
  Voi voi;
  voi.center = number_of(item, DCM_WindowCenter, std::nan(""));
  voi.width = number_of(item, DCM_WindowWidth, std::nan(""));
  const std::string function = text_of(item, DCM_VOILUTFunction);
  if (function == "LINEAR_EXACT") voi.function = Voi::Function::kLinearExact;
  if (function == "SIGMOID") voi.function = Voi::Function::kSigmoid;
  const double least = voi.function == Voi::Function::kLinear ? 1 : 0;
  const bool wide = voi.width >= least && voi.width > 0;
  if (std::isnan(voi.center) || !wide) return std::nullopt;
  return voi;
}

namespace {

// Headers hold it as signed or unsigned, not always as the pixels are.
double integer_padding(DcmItem& root, const DcmTagKey& tag, const PixelLayout& layout) {
  Uint16 whole = 0;
  Sint16 signed_whole = 0;
  double value = std::nan("");
  if (root.findAndGetUint16(tag, whole).good()) {
    value = whole;
  } else if (root.findAndGetSint16(tag, signed_whole).good()) {
    value = signed_whole;
  }
  const double span = std::ldexp(1.0, layout.bits_allocated);
  if (layout.is_signed && value >= span / 2) return value - span;
  return !layout.is_signed && value < 0 ? value + span : value;
}

double padding_number(DcmItem& root, const PixelLayout& layout, bool limit) {
  switch (layout.kind) {
    case PixelElement::Kind::kFloat:
      return number_of(root, limit ? DCM_FloatPixelPaddingRangeLimit : DCM_FloatPixelPaddingValue,
                       std::nan(""));
    case PixelElement::Kind::kDouble:
      return number_of(
          root, limit ? DCM_DoubleFloatPixelPaddingRangeLimit : DCM_DoubleFloatPixelPaddingValue,
          std::nan(""));
    default:
      return integer_padding(root, limit ? DCM_PixelPaddingRangeLimit : DCM_PixelPaddingValue,
                             layout);
  }
}

}  // namespace

Padding read_padding(DcmItem& root, const PixelLayout& layout) {
  const double value = padding_number(root, layout, false);
  if (std::isnan(value)) return {};
  const double limit = padding_number(root, layout, true);
  const double other = std::isnan(limit) ? value : limit;
  return {std::min(value, other), std::max(value, other)};
}

namespace {

std::shared_ptr<const LookupTable> read_first_table(DcmItem& root, const DcmTagKey& sequence,
                                                    bool signed_inputs) {
  DcmItem* item = item_of(root, sequence);
  if (item == nullptr) return nullptr;
  return std::make_shared<LookupTable>(
      read_table(*item, DCM_LUTDescriptor, DCM_LUTData, signed_inputs));
}

// One for all frames where all are the same.
template <typename T>
void join(std::vector<T>& list) {
  const auto differs = [&](const T& each) { return !(each == list.front()); };
  if (std::none_of(list.begin(), list.end(), differs)) list.resize(1);
}

}  // namespace

GreyScale::GreyScale(const DataSet& data, const PixelLayout& layout, const Window& window)
    : padding_(read_padding(data.root(), layout)),
      stored_greatest_(std::ldexp(1.0, layout.bits_stored) - 1),
      inverted_(layout.photometric == Photometric::kMonochrome1) {
  DcmItem& root = data.root();
  const FunctionalGroups groups(root);
  Modality modality = read_rescale(root);
  modality.table = read_first_table(root, DCM_ModalityLUTSequence, layout.is_signed);
  auto voi = read_window(root);
  const bool signed_values = layout.is_signed || modality.intercept < 0;
  if (auto table = read_first_table(root, DCM_VOILUTSequence, signed_values)) {
    voi = Voi{Voi::Function::kLinear, 0, 1, std::move(table)};
  }
  const std::int64_t own_frames = groups.frames() == 0 ? 1 : layout.frames;
  for (std::int64_t frame = 0; frame < own_frames; ++frame) {
    DcmItem* own = groups.find(frame, DCM_PixelValueTransformationSequence);
    modalities_.push_back(own != nullptr ? read_rescale(*own) : modality);
    own = groups.find(frame, DCM_FrameVOILUTSequence);
    vois_.push_back(own != nullptr ? read_window(*own) : voi);
  }
  if (window.kind == Window::Kind::kFixed) {
    vois_.assign(1, Voi{Voi::Function::kLinearExact, window.center, window.width, nullptr});
  } else if (window.kind == Window::Kind::kPercentiles) {
    vois_.assign(1, std::nullopt);
  }
  join(modalities_);
  join(vois_);
  const bool as_it_is = layout.kind == PixelElement::Kind::kInteger && layout.bits_stored <= 8 &&
                        !layout.is_signed && modalities_.size() == 1 &&
                        modalities_.front().is_identity() &&
                        window.kind != Window::Kind::kPercentiles;
  wants_range_ = !as_it_is && std::find(vois_.begin(), vois_.end(), std::nullopt) != vois_.end();
}

void GreyScale::set_range(const ValueRange& range) {
  range_ = range;
  wants_range_ = false;
}

std::uint8_t GreyScale::level(std::int64_t frame, double stored) const {
  if (is_padding(stored) || std::isnan(stored)) return 0;
  const double value = modality(frame).apply(stored);
  const ValueRange range = range_.value_or(ValueRange{0, stored_greatest_});
  const std::uint8_t level = voi(frame) ? voi(frame)->apply(value) : to_level(value, range);
  return static_cast<std::uint8_t>(inverted_ ? 255 - level : level);
}

}  // namespace coldframe::frames::dicom
