#include "cache/tool/exchange/tensor_file.h"

#include <zlib.h>

#include "common/files/json.h"
#include "common/text/text.h"

namespace coldframe::cache::tool {
namespace {

struct TypeNames {
  std::size_t bytes;
  const char *numpy, *safetensors;
};

TypeNames names_of(ElementType type) {
  switch (type) {
    case ElementType::kFloat16:
      return {2, "<f2", "F16"};
    case ElementType::kFloat32:
      return {4, "<f4", "F32"};
    case ElementType::kFloat64:
      return {8, "<f8", "F64"};
    case ElementType::kInt64:
      return {8, "<i8", "I64"};
    case ElementType::kUint8:
      break;
  }
  return {1, "|u1", "U8"};
}

std::string npy_header(const Tensor& tensor) {
  std::string shape;
  for (const std::uint64_t size : tensor.shape) shape += concat(size, ",");
  std::string header = concat("{'descr': '", names_of(tensor.type).numpy,
                              "', 'fortran_order': False, 'shape': (", shape, "), }");
  // Magic, version and length take 10 bytes; the data start at a multiple of 64.
  header.append((64 - (10 + header.size() + 1) % 64) % 64, ' ');
  header += '\n';
  const std::string magic("\x93NUMPY\x01\x00", 8);
  return magic + static_cast<char>(header.size() & 0xff) + static_cast<char>(header.size() >> 8) +
         header;
}

// Little-endian integers one behind the other.
class Fields {
 public:
  Fields& add(int bytes, std::uint64_t value) {
    for (int i = 0; i < bytes; ++i) text_ += static_cast<char>((value >> (8 * i)) & 0xff);
    return *this;
  }
  Fields& add(const std::string& text) {
    text_ += text;
    return *this;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

constexpr std::uint64_t kInZip64 = 0xffffffff;
constexpr int kVersionOfZip64 = 45, kFirstOfJanuary1980 = 33;

struct Member {
  std::string name;
  std::uint64_t offset = 0, size = 0;
  std::uint32_t crc = 0;
};

// Local and central headers share these fields, from "version needed" to the lengths of the name
// and of the extra field.
void add_common(Fields& fields, const Member& member, std::uint64_t extra) {
  fields.add(2, kVersionOfZip64).add(2, 0).add(2, 0).add(2, 0).add(2, kFirstOfJanuary1980);
  fields.add(4, member.crc).add(4, kInZip64).add(4, kInZip64);
  fields.add(2, member.name.size()).add(2, extra);
}

std::string local_header(const Member& member) {
  Fields fields;
  fields.add(4, 0x04034b50);
  add_common(fields, member, 20);
  fields.add(member.name).add(2, 1).add(2, 16).add(8, member.size).add(8, member.size);
  return fields.text();
}

std::string central_header(const Member& member) {
  Fields fields;
  fields.add(4, 0x02014b50).add(2, kVersionOfZip64);
  add_common(fields, member, 28);
  fields.add(2, 0).add(2, 0).add(2, 0).add(4, 0).add(4, kInZip64).add(member.name);
  fields.add(2, 1).add(2, 24).add(8, member.size).add(8, member.size).add(8, member.offset);
  return fields.text();
}

// Central directory, then the ends of both kinds.
std::string directory(const std::vector<Member>& members, std::uint64_t at) {
  Fields fields;
  for (const Member& member : members) fields.add(central_header(member));
  const std::uint64_t size = fields.text().size(), count = members.size();
  fields.add(4, 0x06064b50).add(8, 44).add(2, kVersionOfZip64).add(2, kVersionOfZip64).add(4, 0);
  fields.add(4, 0).add(8, count).add(8, count).add(8, size).add(8, at);
  fields.add(4, 0x07064b50).add(4, 0).add(8, at + size).add(4, 1);
  fields.add(4, 0x06054b50).add(2, 0).add(2, 0).add(2, count).add(2, count);
  fields.add(4, kInZip64).add(4, kInZip64).add(2, 0);
  return fields.text();
}

}  // namespace

std::size_t element_bytes(ElementType type) {
  return names_of(type).bytes;
}

std::uint64_t Tensor::bytes() const {
  std::uint64_t product = element_bytes(type);
  for (const std::uint64_t size : shape) product *= size;
  return product;
}

void write_npy(AtomicFile& file, const Tensor& tensor) {
  file.append(npy_header(tensor));
  tensor.write([&](std::span<const std::byte> bytes) { file.append(bytes); });
}

void write_npz(AtomicFile& file, const std::vector<Tensor>& tensors) {
  std::vector<Member> members;
  for (const Tensor& tensor : tensors) {
    const std::string header = npy_header(tensor);
    Member member{tensor.name + ".npy", file.size(), header.size() + tensor.bytes(), 0};
    file.append(local_header(member));
    file.append(header);
    uLong crc = crc32_z(0, reinterpret_cast<const Bytef*>(header.data()), header.size());
    tensor.write([&](std::span<const std::byte> bytes) {
      crc = crc32_z(crc, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
      file.append(bytes);
    });
    member.crc = static_cast<std::uint32_t>(crc);
    // Known only now, and where it stands does not depend on it.
    const std::string complete = local_header(member);
    file.write_at(member.offset, std::as_bytes(std::span(complete)));
    members.push_back(std::move(member));
  }
  file.append(directory(members, file.size()));
}

void write_safetensors(AtomicFile& file, const std::vector<Tensor>& tensors,
                       const std::vector<std::pair<std::string, std::string>>& metadata) {
  Json header = Json::object();
  for (const auto& [key, value] : metadata) header["__metadata__"][key] = value;
  std::uint64_t at = 0;
  for (const Tensor& tensor : tensors) {
    header[tensor.name] = Json{{"dtype", names_of(tensor.type).safetensors},
                               {"shape", tensor.shape},
                               {"data_offsets", {at, at + tensor.bytes()}}};
    at += tensor.bytes();
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  file.append(Fields().add(8, text.size()).text());
  file.append(text);
  for (const Tensor& tensor : tensors)
    tensor.write([&](std::span<const std::byte> bytes) { file.append(bytes); });
}

}  // namespace coldframe::cache::tool
