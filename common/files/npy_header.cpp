#include "common/files/npy_header.h"

#include <algorithm>
#include <bit>

#include "common/cli/error.h"
#include "common/files/bytes.h"
#include "common/text/text.h"

namespace coldframe {
namespace {

constexpr std::uint64_t kMaxHeader = 1 << 16;

// Returns what stands behind a key of the header, a Python dictionary of three entries.
std::string_view value_behind(std::string_view header, std::string_view key) {
  const std::size_t at = header.find(concat('\'', key, '\''));
  if (at == std::string_view::npos)
    throw DataError(concat("its header is damaged: it has no '", key, "'"));
  std::string_view value = header.substr(at + key.size() + 2);
  const std::size_t start = value.find_first_not_of(": ");
  return start == std::string_view::npos ? "" : value.substr(start);
}

void read_type(std::string_view header, NpyHeader& array) {
  const std::string_view value = value_behind(header, "descr");
  const std::size_t end = value.starts_with('\'') ? value.find('\'', 1) : std::string_view::npos;
  if (end == std::string_view::npos || end < 2) return;
  array.type = value.substr(1, end - 1);
  array.dtype = find_numpy_type(array.type.substr(1));
  array.swapped = array.type[0] == (std::endian::native == std::endian::little ? '>' : '<');
}

void read_shape(std::string_view header, NpyHeader& array) {
  const std::string_view value = value_behind(header, "shape");
  const std::size_t end = value.find(')');
  if (!value.starts_with('(') || end == std::string_view::npos)
    throw DataError("its header is damaged: its shape is no list");
  array.shape_text = value.substr(1, end - 1);
  std::vector<std::string> parts = split(array.shape_text, ',');
  if (trim(parts.back()).empty()) parts.pop_back();  // a tuple may end in a comma
  for (const std::string& part : parts) {
    std::int64_t length = -1;
    array.shape.push_back(parse_int(trim(part), length) && length >= 0 ? length : -1);
  }
}

}  // namespace

NpyHeader read_npy_header(const ByteSource& file, std::uint64_t begin) {
  const std::uint64_t there = file.size() - std::min(begin, file.size());
  const std::string start = file.read(begin, std::min<std::uint64_t>(12, there));
  const ByteCursor in(start, std::endian::little);
  if (!in.holds(0, kNpySignature))
    throw DataError("it does not begin as a .npy file does; write it with numpy.save");
  const bool is_first = in.u8(6) == 1;
  const std::uint64_t at = is_first ? 10 : 12, length = is_first ? in.u16(8) : in.u32(8);
  if (in.u8(6) < 1 || in.u8(6) > 3 || length > kMaxHeader)
    throw DataError(concat("its header is of version ", in.u8(6), " and ", length,
                           " bytes long; versions 1 to 3 of at most ", kMaxHeader,
                           " bytes are read"));
  if (at + length > there) throw DataError("it is truncated: it ends within its header");
  const std::string header = file.read(begin + at, length);
  NpyHeader array;
  read_type(header, array);
  array.data = begin + at + length;
  const std::string_view order = value_behind(header, "fortran_order");
  array.fortran_order = order.starts_with("True");
  if (!array.fortran_order && !order.starts_with("False"))
    throw DataError("its header is damaged: its 'fortran_order' is neither True nor False");
  read_shape(header, array);
  return array;
}

std::string npy_header(DType type, const std::vector<std::uint64_t>& shape) {
  constexpr std::size_t kBefore = 10, kAlignment = 64;  // magic, version and length; of the values
  std::string sizes;
  for (const std::uint64_t size : shape) sizes += concat(size, ",");
  std::string header = concat("{'descr': '", bytes_of(type) == 1 ? '|' : '<', numpy_name(type),
                              "', 'fortran_order': False, 'shape': (", sizes, "), }");
  header.append((kAlignment - (kBefore + header.size() + 1) % kAlignment) % kAlignment, ' ');
  header += '\n';
  return concat(kNpySignature, '\x01', '\0', static_cast<char>(header.size() & 0xff),
                static_cast<char>(header.size() >> 8), header);
}

}  // namespace coldframe
