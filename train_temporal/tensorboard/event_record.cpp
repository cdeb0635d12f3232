#include "train_temporal/tensorboard/event_record.h"

#include <array>
#include <bit>

#include "common/files/bytes/protobuf.h"

namespace coldframe::temporal {
namespace {

constexpr std::size_t kHeader = 12, kFooter = 4;  // length and its CRC; CRC of the data

// Fields of an Event, a Summary and a Summary.Value.
enum EventField : int { kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5 };
enum SummaryField : int { kValue = 1 };
enum ValueField : int { kTag = 1, kSimpleValue = 2 };

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    std::uint32_t crc = byte;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) != 0 ? 0x82f63b78u : 0u);
    table[byte] = crc;
  }
  return table;
}

template <typename T>
std::string little_endian(T value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    bytes += static_cast<char>((value >> (8 * i)) & 0xff);
  }
  return bytes;
}

template <typename T>
T from_little_endian(std::string_view bytes) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value |= static_cast<T>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

// Takes a varint off the front of `bytes`; nothing when it has no end.
std::optional<std::uint64_t> take_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

std::string record(const protobuf::Message& message) {
  const std::string& event = message.bytes();
  const std::string length = little_endian(static_cast<std::uint64_t>(event.size()));
  return length + little_endian(masked_crc32c(length)) + event +
         little_endian(masked_crc32c(event));
}

// Skips a field that is not looked at; false when it is cut off or of an unknown type.
bool skip(std::string_view& event, protobuf::Wire wire) {
  std::uint64_t size = 0;
  if (wire == protobuf::Wire::kVarint) return take_varint(event).has_value();
  if (wire == protobuf::Wire::kFixed64) size = 8;
  if (wire == protobuf::Wire::kFixed32) size = 4;
  if (wire == protobuf::Wire::kLength) {
    const auto length = take_varint(event);
    if (!length) return false;
    size = *length;
  } else if (size == 0) {
    return false;
  }
  if (size > event.size()) return false;
  event.remove_prefix(size);
  return true;
}

std::optional<std::int64_t> step_of(std::string_view event) {
  std::int64_t step = 0;
  while (!event.empty()) {
    const auto field = take_varint(event);
    if (!field) return std::nullopt;
    if (*field == protobuf::key(kStep, protobuf::Wire::kVarint)) {
      const auto value = take_varint(event);
      if (!value) return std::nullopt;
      step = static_cast<std::int64_t>(*value);
    } else if (!skip(event, static_cast<protobuf::Wire>(*field & 7))) {
      return std::nullopt;
    }
  }
  return step;
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr auto kTable = crc_table();
  std::uint32_t crc = 0xffffffff;
  for (const char c : bytes) crc = kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff] ^ crc >> 8;
  return ~crc;
}

std::uint32_t masked_crc32c(std::string_view bytes) {
  return std::rotr(crc32c(bytes), 15) + 0xa282ead8u;
}

std::string version_record(double wall_time) {
  return record(
      protobuf::Message().float64(kWallTime, wall_time).text(kFileVersion, "brain.Event:2"));
}

std::string scalar_record(double wall_time, std::int64_t step, std::span<const Scalar> scalars) {
  protobuf::Message summary;
  for (const Scalar& scalar : scalars)
    summary.message(kValue,
                    protobuf::Message().text(kTag, scalar.tag).float32(kSimpleValue, scalar.value));
  return record(protobuf::Message()
                    .float64(kWallTime, wall_time)
                    .number(kStep, step)
                    .message(kSummary, summary));
}

std::optional<RecordHead> read_record_head(std::string_view bytes) {
  if (bytes.size() < kHeader + kFooter) return std::nullopt;
  const auto length = from_little_endian<std::uint64_t>(bytes);
  const auto check = from_little_endian<std::uint32_t>(bytes.substr(8));
  if (check != masked_crc32c(bytes.substr(0, 8))) return std::nullopt;
  if (length > bytes.size() - kHeader - kFooter) return std::nullopt;
  const std::string_view event = bytes.substr(kHeader, length);
  const auto data_check = from_little_endian<std::uint32_t>(bytes.substr(kHeader + length));
  if (data_check != masked_crc32c(event)) return std::nullopt;
  const auto step = step_of(event);
  if (!step) return std::nullopt;
  return RecordHead{kHeader + static_cast<std::size_t>(length) + kFooter, *step};
}

}  // namespace coldframe::temporal
