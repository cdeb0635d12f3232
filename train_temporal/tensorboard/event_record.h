// One event of a TensorBoard file as bytes and back. The record is TFRecord's, as
// tensorflow/core/lib/io/record_writer.h describes it:
//   uint64 length, uint32 masked CRC-32C of it, the data, uint32 masked CRC-32C of them
// (little-endian), the data a protobuf `Event` of tensorflow/core/util/event.proto:
//   1 wall_time double, 2 step int64, 3 file_version string, 5 summary Summary
// with tensorflow/core/framework/summary.proto:
//   Summary: 1 repeated value; Summary.Value: 1 tag string, 2 simple_value float
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace coldframe::temporal {

struct Scalar {
  std::string tag;  // "loss/train": what stands before the slash is a group in TensorBoard
  float value;
};

// The first record of a file, without which TensorBoard refuses the rest.
std::string version_record(double wall_time);
// wall_time: seconds since 1970.
std::string scalar_record(double wall_time, std::int64_t step, std::span<const Scalar> scalars);

struct RecordHead {
  std::size_t size = 0;   // bytes of the whole record
  std::int64_t step = 0;  // 0 where the event has none, as the first record
};
// The record at the start of `bytes`; nothing when it is cut off or damaged.
std::optional<RecordHead> read_record_head(std::string_view bytes);

// Castagnoli's CRC (RFC 3720, appendix B.4), and the mask that keeps a CRC of data which hold a
// CRC apart from it.
std::uint32_t crc32c(std::string_view bytes);
std::uint32_t masked_crc32c(std::string_view bytes);

}  // namespace coldframe::temporal
