#include "common/torch/safetensors_header.h"

#include <algorithm>
#include <array>
#include <set>
#include <utility>

#include "common/cli/error.h"
#include "common/files/json.h"
#include "common/text/text.h"

namespace coldframe {

namespace {

constexpr std::size_t kMaxDimensions = 64;  // as many as LibTorch's kernels take

struct TypeName {
  const char* name;
  torch::ScalarType type;
};
constexpr std::array<TypeName, 18> kTypes = {{
    {"BOOL", torch::kBool},
    {"U8", torch::kUInt8},
    {"I8", torch::kInt8},
    {"I16", torch::kInt16},
    {"U16", torch::kUInt16},
    {"F16", torch::kFloat16},
    {"BF16", torch::kBFloat16},
    {"I32", torch::kInt32},
    {"U32", torch::kUInt32},
    {"F32", torch::kFloat32},
    {"F64", torch::kFloat64},
    {"I64", torch::kInt64},
    {"U64", torch::kUInt64},
    {"F8_E4M3", torch::kFloat8_e4m3fn},
    {"F8_E4M3FNUZ", torch::kFloat8_e4m3fnuz},
    {"F8_E5M2", torch::kFloat8_e5m2},
    {"F8_E5M2FNUZ", torch::kFloat8_e5m2fnuz},
    {"C64", torch::kComplexFloat},
}};

// Takes the header in as it is parsed. A parsed tree would cost twenty times the text, lose
// duplicate keys, and be asked for the same things again.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& what) : what_(what) {}

  SafetensorsHeader take() { return std::move(header_); }

  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("a truth value"); }
  bool number_integer(number_integer_t value) override {
    return unexpected(concat("the negative number ", value));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return unexpected(concat("the number ", text));
  }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > static_cast<number_unsigned_t>(INT64_MAX)) refuse("a dimension is too large");
      if (entry_.shape.size() == kMaxDimensions) refuse("it has more than 64 dimensions");
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      if (offsets_.size() == 2) refuse("data_offsets has more than two numbers");
      offsets_.push_back(value);
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[field_] = value;
    } else if (place_ == Place::kTensor && field_ == "dtype") {
      read_type(value);
    } else {
      return unexpected("text");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && field_ == "__metadata__") {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      entry_ = SafetensorsEntry();
      entry_.name = field_;
      offsets_.clear();
    } else {
      return unexpected("an object");
    }
    fields_.clear();
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (fields_.size() != 3) refuse("it lacks one of dtype, shape and data_offsets");
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
      header_.entries.push_back(std::move(entry_));
    }
    place_ = place_ == Place::kTop ? Place::kStart : Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kTensor && field_ == "shape") {
      place_ = Place::kShape;
    } else if (place_ == Place::kTensor && field_ == "data_offsets") {
      place_ = Place::kOffsets;
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_.size() != 2) {
      refuse("data_offsets has fewer than two numbers");
    }
    place_ = Place::kTensor;
    return true;
  }

  bool key(string_t& name) override {
    if (place_ == Place::kTensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      refuse(concat("unknown field '", name, "'"));
    }
    std::set<std::string>& seen = place_ == Place::kTop ? names_ : fields_;
    if (!seen.insert(name).second) {
      throw DataError(concat(what_, ": the key '", name, "' occurs twice in the header"));
    }
    field_ = name;
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw DataError(concat(what_, ": the header is not valid JSON at byte ", position));
  }

 private:
  enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

  [[noreturn]] void refuse(std::string_view reason) const {
    throw DataError(concat(what_, ": tensor '", entry_.name, "': ", reason));
  }

  bool unexpected(std::string_view found) const {
    throw DataError(concat(what_, ": the header has ", found, " where it should not be",
                           field_.empty() ? "" : concat(" (at '", field_, "')")));
  }

  void read_type(const std::string& name) {
    const auto* found = std::find_if(kTypes.begin(), kTypes.end(),
                                     [&](const TypeName& type) { return name == type.name; });
    if (found == kTypes.end()) refuse(concat("unknown type '", name, "'"));
    entry_.dtype = found->type;
  }

  const std::string& what_;
  Place place_ = Place::kStart;
  std::string field_;
  std::set<std::string> names_, fields_;
  SafetensorsEntry entry_;
  std::vector<std::uint64_t> offsets_;
  SafetensorsHeader header_;
};

// Elements times the size of one, the products checked. LibTorch computes strides with empty
// dimensions taken as 1, so these are checked too.
std::uint64_t checked_bytes(const SafetensorsEntry& entry, const std::string& what) {
  std::int64_t bytes = static_cast<std::int64_t>(torch::elementSize(entry.dtype));
  bool empty = false;
  for (const std::int64_t dimension : entry.shape) {
    empty |= dimension == 0;
    if (__builtin_mul_overflow(bytes, std::max<std::int64_t>(dimension, 1), &bytes)) {
      throw DataError(concat(what, ": tensor '", entry.name, "': its shape is too large"));
    }
  }
  return empty ? 0 : static_cast<std::uint64_t>(bytes);
}

void check_layout(SafetensorsHeader& header, std::uint64_t data_bytes, const std::string& what) {
  std::sort(header.entries.begin(), header.entries.end(), [](const auto& a, const auto& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t end = 0;
  for (const SafetensorsEntry& entry : header.entries) {
    if (entry.begin != end || entry.end < entry.begin) {
      throw DataError(concat(what, ": tensor '", entry.name, "' takes bytes ", entry.begin, " to ",
                             entry.end, "; expected it to start at ", end));
    }
    const std::uint64_t needed = checked_bytes(entry, what);
    if (entry.end - entry.begin != needed) {
      throw DataError(concat(what, ": tensor '", entry.name, "' takes ", entry.end - entry.begin,
                             " bytes; its type and shape need ", needed));
    }
    end = entry.end;
  }
  if (end != data_bytes) {
    throw DataError(concat(what, ": its tensors take ", end, " bytes and the file holds ",
                           data_bytes,
                           end > data_bytes ? "; it is cut short" : "; it is too long"));
  }
}

}  // namespace

SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           const std::string& what) {
  HeaderReader reader(what);
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  SafetensorsHeader header = reader.take();
  check_layout(header, data_bytes, what);
  return header;
}

std::string safetensors_type_name(torch::ScalarType type) {
  for (const TypeName& known : kTypes) {
    if (known.type == type) return known.name;
  }
  throw DataError(concat("safetensors has no name for tensors of type ", torch::toString(type)));
}

}  // namespace coldframe
