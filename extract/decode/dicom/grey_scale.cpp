#include "extract/decode/dicom/grey_scale.h"

#include <dcmtk/dcmdata/dcelem.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>

#include "common/cli/error.h"
#include "common/text/text.h"
#include "extract/decode/window.h"

namespace coldframe::frames::dicom {

namespace {

struct Descriptor {
  std::size_t entries = 0;
  double first = 0;
  int bits = 16;
};

Descriptor read_descriptor(DcmItem& item, const DcmTagKey& tag, bool signed_inputs) {
  const auto numbers = numbers_of(item, tag);
  if (numbers.size() < 3) throw DataError("a look-up table has no descriptor of three values");
  const auto unsigned16 = [](double value) { return value < 0 ? value + 65536 : value; };
  Descriptor descriptor;
  const double entries = unsigned16(numbers[0]);
  descriptor.entries = entries == 0 ? 65536 : static_cast<std::size_t>(entries);
  descriptor.first = unsigned16(numbers[1]);
  if (signed_inputs && descriptor.first >= 32768) descriptor.first -= 65536;
  descriptor.bits = static_cast<int>(numbers[2]);
  if (!(entries >= 0 && entries <= 65535) || descriptor.bits < 1 || descriptor.bits > 16) {
    throw DataError(
        concat("a look-up table's descriptor is ", numbers[0], "\\", numbers[1], "\\", numbers[2]));
  }
  return descriptor;
}

std::span<const std::uint16_t> words_of(DcmItem& item, const DcmTagKey& tag) {
  const Uint16* words = nullptr;
  unsigned long count = 0;
  if (item.findAndGetUint16Array(tag, words, &count).bad() || words == nullptr) return {};
  return {words, count};
}

// Entries of 8 bits may be packed two in a word.
std::vector<std::uint16_t> unpack(std::span<const std::uint16_t> words,
                                  const Descriptor& descriptor) {
  std::vector<std::uint16_t> entries(words.begin(), words.end());
  if (descriptor.bits <= 8 && words.size() < descriptor.entries) {
    entries.clear();
    for (const std::uint16_t word : words) {
      entries.push_back(word & 0xFF);
      entries.push_back(word >> 8);
    }
  }
  if (entries.size() < descriptor.entries) {
    throw DataError(concat("a look-up table has ", entries.size(), " entries, its descriptor says ",
                           descriptor.entries));
  }
  entries.resize(descriptor.entries);
  return entries;
}

// PS3.3 C.7.9.2: runs of entries (0), straight lines (1), and repeated segments (2).
constexpr std::size_t kMaxSegments = 1 << 18;

class SegmentReader {
 public:
  SegmentReader(std::span<const std::uint16_t> words, std::size_t limit)
      : words_(words), limit_(limit) {}

  std::vector<std::uint16_t> expand() {
    while (at_ < words_.size() && entries_.size() < limit_) segment(true);
    return std::move(entries_);
  }

 private:
  std::uint16_t next() {
    if (at_ >= words_.size()) throw DataError("a segmented look-up table is truncated");
    return words_[at_++];
  }
  void put(double value) {
    if (entries_.size() < limit_) entries_.push_back(static_cast<std::uint16_t>(value));
  }

  void segment(bool may_repeat) {
    if (++segments_ > kMaxSegments) throw DataError("a segmented look-up table does not end");
    const std::uint16_t kind = next(), length = next();
    if (kind == 0) {
      for (int i = 0; i < length; ++i) put(next());
    } else if (kind == 1 && !entries_.empty()) {
      const double from = entries_.back(), to = next();
      for (int i = 1; i <= length; ++i) put(std::floor(from + (to - from) * i / length + 0.5));
    } else if (kind == 2 && may_repeat) {
      const std::size_t low = next(), offset = low | static_cast<std::size_t>(next()) << 16;
      const std::size_t back = at_;
      at_ = offset;
      for (int i = 0; i < length && entries_.size() < limit_; ++i) segment(false);
      at_ = back;
    } else {
      throw DataError(concat("a segmented look-up table has a segment of kind ", kind));
    }
  }

  std::span<const std::uint16_t> words_;
  std::size_t limit_, at_ = 0, segments_ = 0;
  std::vector<std::uint16_t> entries_;
};

}  // namespace

std::uint16_t LookupTable::at(double input) const {
  const double index = std::floor(input - first);
  if (!(index > 0)) return entries.front();
  return index >= static_cast<double>(entries.size()) ? entries.back()
                                                      : entries[static_cast<std::size_t>(index)];
}

LookupTable read_table(DcmItem& item, const DcmTagKey& descriptor, const DcmTagKey& data,
                       bool signed_inputs) {
  const Descriptor shape = read_descriptor(item, descriptor, signed_inputs);
  return {shape.first, shape.bits, unpack(words_of(item, data), shape)};
}

LookupTable read_palette(DcmItem& item, const DcmTagKey& descriptor, const DcmTagKey& data,
                         const DcmTagKey& segmented, bool signed_inputs) {
  const auto segments = words_of(item, segmented);
  if (!words_of(item, data).empty() || segments.empty()) {
    return read_table(item, descriptor, data, signed_inputs);
  }
  const Descriptor shape = read_descriptor(item, descriptor, signed_inputs);
  std::vector<std::uint16_t> entries = SegmentReader(segments, shape.entries).expand();
  if (entries.size() < shape.entries) throw DataError("a segmented look-up table is too short");
  return {shape.first, shape.bits, std::move(entries)};
}

namespace {

Image empty_image(const PixelLayout& layout) {
  Image image{layout.columns, layout.rows, {}};
  image.rgb.resize(layout.pixels() * 3);
  return image;
}

// ITU-T T.871 section 7, in single precision and rounded half up, as pydicom does.
void ybr_to_rgb(std::uint8_t* pixel) {
  const float y = pixel[0], cb = static_cast<float>(pixel[1]) - 128.0f,
              cr = static_cast<float>(pixel[2]) - 128.0f;
  constexpr float kGreenCb = static_cast<float>(-0.114 * 1.772 / 0.587);
  constexpr float kGreenCr = static_cast<float>(-0.299 * 1.402 / 0.587);
  const float rgb[3] = {y + 1.402f * cr, y + kGreenCb * cb + kGreenCr * cr, y + 1.772f * cb};
  for (int i = 0; i < 3; ++i) {
    pixel[i] = static_cast<std::uint8_t>(std::clamp(rgb[i] + 0.5f, 0.0f, 255.0f));
  }
}

// ITU-R BT.601: black is 16, white 235, chroma 16 to 240 (PS3.3 C.7.6.3.1.2).
void partial_ybr_to_rgb(std::uint8_t* pixel) {
  const double y = (pixel[0] - 16) * 255.0 / 219, cb = (pixel[1] - 128) * 255.0 / 224,
               cr = (pixel[2] - 128) * 255.0 / 224;
  const double rgb[3] = {y + 1.402 * cr, y - (0.114 * 1.772 * cb + 0.299 * 1.402 * cr) / 0.587,
                         y + 1.772 * cb};
  for (int i = 0; i < 3; ++i)
    pixel[i] = static_cast<std::uint8_t>(std::clamp(rgb[i] + 0.5, 0.0, 255.0));
}

// Two pixels share their chroma: Y1 Y2 Cb Cr.
void copy_422(const RawFrame& raw, Image& image) {
  const auto* in = reinterpret_cast<const std::uint8_t*>(raw.samples.data());
  std::uint8_t* out = image.rgb.data();
  for (std::size_t pair = 0; pair < image.rgb.size() / 6; ++pair, in += 4, out += 6) {
    const std::uint8_t pixels[6] = {in[0], in[2], in[3], in[1], in[2], in[3]};
    std::copy_n(pixels, 6, out);
  }
}

}  // namespace

Palette read_palettes(const DataSet& data, const PixelLayout& layout) {
  DcmItem& root = data.root();
  const bool is_signed = layout.is_signed;
  Palette palette{read_palette(root, DCM_RedPaletteColorLookupTableDescriptor,
                               DCM_RedPaletteColorLookupTableData,
                               DCM_SegmentedRedPaletteColorLookupTableData, is_signed),
                  read_palette(root, DCM_GreenPaletteColorLookupTableDescriptor,
                               DCM_GreenPaletteColorLookupTableData,
                               DCM_SegmentedGreenPaletteColorLookupTableData, is_signed),
                  read_palette(root, DCM_BluePaletteColorLookupTableDescriptor,
                               DCM_BluePaletteColorLookupTableData,
                               DCM_SegmentedBluePaletteColorLookupTableData, is_signed)};
  // Some writers announce 16 bits and write 8.
  const auto is_narrow = [](const LookupTable& table) {
    return *std::max_element(table.entries.begin(), table.entries.end()) <= 255;
  };
  if (std::all_of(palette.begin(), palette.end(), is_narrow)) {
    for (LookupTable& table : palette) table.bits = 8;
  }
  return palette;
}

Image color_image(const RawFrame& raw) {
  const PixelLayout& layout = raw.layout;
  Image image = empty_image(layout);
  if (layout.chroma == Chroma::kPairs) {
    copy_422(raw, image);
  } else if (layout.bits_allocated == 8 && layout.bits_stored == 8 && !layout.planar) {
    std::memcpy(image.rgb.data(), raw.samples.data(), image.rgb.size());
  } else {
    const Samples samples(raw);
    const std::size_t pixels = layout.pixels();
    const std::size_t pixel_step = layout.planar ? 1 : 3, channel_step = layout.planar ? pixels : 1;
    const ValueRange range{0, std::ldexp(1.0, layout.bits_stored) - 1};
    for (std::size_t i = 0; i < pixels * 3; ++i) {
      const std::uint32_t bits = samples.bits(i / 3 * pixel_step + i % 3 * channel_step);
      image.rgb[i] =
          layout.bits_stored == 8 ? static_cast<std::uint8_t>(bits) : to_level(bits, range);
    }
  }
  if (layout.photometric == Photometric::kRgb) return image;
  const auto convert =
      layout.photometric == Photometric::kYbrFull ? ybr_to_rgb : partial_ybr_to_rgb;
  for (std::size_t i = 0; i < image.rgb.size(); i += 3) convert(&image.rgb[i]);
  return image;
}

Image palette_image(const RawFrame& raw, const Palette& palette) {
  const Samples samples(raw);
  Image image = empty_image(raw.layout);
  for (std::size_t i = 0; i < image.rgb.size(); ++i) {
    const LookupTable& table = palette[i % 3];
    const unsigned entry = table.at(samples.value(i / 3));
    image.rgb[i] = static_cast<std::uint8_t>(table.bits > 8 ? entry >> (table.bits - 8) : entry);
  }
  return image;
}

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
