#include "common/torch/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/files/json.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "common/torch/tensor.h"

namespace coldframe {

// The JSON header of a safetensors file, checked as the reference implementation checks it.

struct SafetensorsEntry {
  std::string name;
  torch::ScalarType dtype = torch::kFloat32;
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from the end of the header
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> entries;  // in the order of their bytes
  std::map<std::string, std::string> metadata;
};

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes, the reference's bound

// `data_bytes` is what the file holds behind the header; entries must cover it without a hole.
// DataError names `what` and the tensor.
SafetensorsHeader parse_safetensors_header(std::string_view json, std::uint64_t data_bytes,
                                           const std::string& what);

// "F32" for torch::kFloat32; DataError for a type that safetensors has no name for.
std::string safetensors_type_name(torch::ScalarType type);

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
    if (scope_ == Scope::kShape) {
      if (value > static_cast<number_unsigned_t>(INT64_MAX)) refuse("a dimension is too large");
      if (entry_.shape.size() == kMaxDimensions) refuse("it has more than 64 dimensions");
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (scope_ == Scope::kOffsets) {
      if (offsets_.size() == 2) refuse("data_offsets has more than two numbers");
      offsets_.push_back(value);
    } else {
      return unexpected("a number");
    }
    return true;
  }

  bool string(string_t& value) override {
    if (scope_ == Scope::kMetadata) {
      header_.metadata[field_] = value;
    } else if (scope_ == Scope::kTensor && field_ == "dtype") {
      read_type(value);
    } else {
      return unexpected("text");
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (scope_ == Scope::kStart) {
      scope_ = Scope::kTop;
    } else if (scope_ == Scope::kTop && field_ == "__metadata__") {
      scope_ = Scope::kMetadata;
    } else if (scope_ == Scope::kTop) {
      scope_ = Scope::kTensor;
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
    if (scope_ == Scope::kTensor) {
      if (fields_.size() != 3) refuse("it lacks one of dtype, shape and data_offsets");
      entry_.begin = offsets_[0];
      entry_.end = offsets_[1];
      header_.entries.push_back(std::move(entry_));
    }
    scope_ = scope_ == Scope::kTop ? Scope::kStart : Scope::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (scope_ == Scope::kTensor && field_ == "shape") {
      scope_ = Scope::kShape;
    } else if (scope_ == Scope::kTensor && field_ == "data_offsets") {
      scope_ = Scope::kOffsets;
    } else {
      return unexpected("a list");
    }
    return true;
  }

  bool end_array() override {
    if (scope_ == Scope::kOffsets && offsets_.size() != 2) {
      refuse("data_offsets has fewer than two numbers");
    }
    scope_ = Scope::kTensor;
    return true;
  }

  bool key(string_t& name) override {
    if (scope_ == Scope::kTensor && name != "dtype" && name != "shape" && name != "data_offsets") {
      refuse(concat("unknown field '", name, "'"));
    }
    std::set<std::string>& seen = scope_ == Scope::kTop ? names_ : fields_;
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
  enum class Scope { kStart, kTop, kMetadata, kTensor, kShape, kOffsets };

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
  Scope scope_ = Scope::kStart;
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

namespace {

// The file starts with the header's length: 8 bytes, little-endian.
constexpr std::uint64_t kLengthBytes = 8;

std::span<std::byte> bytes_of(const torch::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

SafetensorsHeader read_header(const InputFile& file, std::uint64_t& data_start) {
  const std::string what = concat("'", file.path().string(), "'");
  std::array<std::byte, kLengthBytes> start;
  if (file.size() < start.size()) {
    throw DataError(concat(what, " has ", plural(file.size(), "byte"),
                           "; a safetensors file starts with 8 bytes of header length"));
  }
  file.read_at(0, start);
  const std::uint64_t length = ByteCursor(start).number(kLengthBytes);
  if (length > kMaxSafetensorsHeader) {
    throw DataError(concat(what, ": its header claims ", length, " bytes; at most ",
                           kMaxSafetensorsHeader, " are allowed in a safetensors file"));
  }
  if (length > file.size() - kLengthBytes) {
    throw DataError(concat(what, " is cut short: its header takes ", length,
                           " bytes and the file has ", file.size() - kLengthBytes,
                           " behind the length"));
  }
  const std::string json = file.read(kLengthBytes, length);
  if (!json.starts_with('{')) {
    throw DataError(concat(what, ": a safetensors header starts with '{'"));
  }
  data_start = kLengthBytes + length;
  return parse_safetensors_header(json, file.size() - data_start, what);
}

torch::Tensor read_tensor(const InputFile& file, std::uint64_t data_start,
                          const SafetensorsEntry& entry) {
  torch::Tensor tensor = torch::empty(entry.shape, torch::TensorOptions(entry.dtype));
  const std::span<std::byte> bytes = bytes_of(tensor);
  file.read_at(data_start + entry.begin, bytes);
  if (entry.dtype == torch::kBool &&
      std::any_of(bytes.begin(), bytes.end(), [](std::byte b) { return b > std::byte{1}; })) {
    throw DataError(concat("'", file.path().string(), "': tensor '", entry.name,
                           "' is of type BOOL and holds bytes other than 0 and 1"));
  }
  return tensor;
}

struct Item {
  std::string name;
  torch::Tensor tensor;  // contiguous, on the CPU
};

// Wide types first, so that each tensor is aligned; names in order within a type.
std::vector<Item> in_file_order(const StateDict& tensors) {
  std::vector<Item> items;
  for (const auto& [name, tensor] : tensors) {
    if (name == "__metadata__" || !is_valid_utf8(name)) {
      throw DataError(concat("a safetensors file cannot hold a tensor named '", name, "'"));
    }
    items.push_back({name, tensor.detach().cpu().contiguous().resolve_conj().resolve_neg()});
  }
  std::stable_sort(items.begin(), items.end(), [](const Item& a, const Item& b) {
    return a.tensor.element_size() > b.tensor.element_size();
  });
  return items;
}

std::string header_text(const std::vector<Item>& items,
                        const std::map<std::string, std::string>& metadata) {
  // Assembled by hand: ordered_json goes through all keys for each that it adds.
  std::string text = "{";
  if (!metadata.empty()) text += "\"__metadata__\":" + Json(metadata).dump();
  std::uint64_t offset = 0;
  for (const Item& item : items) {
    const std::uint64_t end = offset + item.tensor.nbytes();
    const Json entry = {{"dtype", safetensors_type_name(item.tensor.scalar_type())},
                        {"shape", item.tensor.sizes().vec()},
                        {"data_offsets", {offset, end}}};
    if (text.size() > 1) text += ",";
    text += Json(item.name).dump() + ":" + entry.dump();
    offset = end;
  }
  text += "}";
  text.append((kLengthBytes - text.size() % kLengthBytes) % kLengthBytes, ' ');
  return text;
}

constexpr const char* kSeal = "xxh3";

std::string seal_of(const StateDict& tensors, const std::map<std::string, std::string>& metadata) {
  Xxh3Stream digest;
  const auto add = [&](const std::string& text) {  // with its end
    digest.update(std::as_bytes(std::span(text.c_str(), text.size() + 1)));
  };
  for (const auto& [key, value] : metadata) {
    add(key);
    add(value);
  }
  for (const Item& item : in_file_order(tensors)) {
    add(item.name);
    add(concat(safetensors_type_name(item.tensor.scalar_type()), shape_text(item.tensor.sizes())));
    digest.update(bytes_of(item.tensor));
  }
  return digest.hex();
}

}  // namespace

bool is_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  std::array<std::byte, kLengthBytes + 1> start;
  if (file.read_some(0, start) < start.size()) return false;
  return ByteCursor(start).number(kLengthBytes) <= kMaxSafetensorsHeader &&
         start.back() == std::byte{'{'};
}

SafetensorsFile read_safetensors(const std::filesystem::path& path) {
  const InputFile file(path);
  std::uint64_t data_start = 0;
  SafetensorsHeader header = read_header(file, data_start);
  SafetensorsFile result;
  result.metadata = std::move(header.metadata);
  for (SafetensorsEntry& entry : header.entries) {
    torch::Tensor tensor = read_tensor(file, data_start, entry);
    result.tensors.emplace(std::move(entry.name), std::move(tensor));
  }
  return result;
}

void write_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                       const std::map<std::string, std::string>& metadata) {
  for (const auto& [key, value] : metadata) {
    if (!is_valid_utf8(key) || !is_valid_utf8(value)) {
      throw DataError(concat("safetensors metadata '", key, "' is not UTF-8 text"));
    }
  }
  const std::vector<Item> items = in_file_order(tensors);
  const std::string header = header_text(items, metadata);
  std::array<std::byte, kLengthBytes> length;
  for (std::size_t i = 0; i < kLengthBytes; ++i) {
    length[i] = static_cast<std::byte>(header.size() >> 8 * i & 0xFF);
  }
  AtomicFile file(path);
  file.append(length);
  file.append(header);
  for (const Item& item : items) file.append(bytes_of(item.tensor));
  file.finish();
}

SafetensorsFile read_sealed_safetensors(const std::filesystem::path& path) {
  SafetensorsFile file = read_safetensors(path);
  const auto seal = file.metadata.extract(kSeal);
  if (!seal.empty() && seal.mapped() == seal_of(file.tensors, file.metadata)) return file;
  throw DataError(concat("'", path.string(), "' ",
                         seal.empty() ? "has no checksum: Coldframe did not write it"
                                      : "does not fit its checksum: it was damaged or altered"));
}

void write_sealed_safetensors(const std::filesystem::path& path, const StateDict& tensors,
                              std::map<std::string, std::string> metadata) {
  metadata[kSeal] = seal_of(tensors, metadata);
  write_safetensors(path, tensors, metadata);
}

std::string shape_text(torch::IntArrayRef shape) {
  std::ostringstream out;
  out << shape;
  return out.str();
}

}  // namespace coldframe
