#include "common/torch/safetensors.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <sstream>
#include <utility>
#include <vector>

#include "common/cli/error.h"
#include "common/files/bytes/byte_cursor.h"
#include "common/files/file.h"
#include "common/files/fingerprint.h"
#include "common/files/json.h"
#include "common/files/publish/atomic_file.h"
#include "common/text/text.h"
#include "common/torch/safetensors_header.h"

namespace coldframe {

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
