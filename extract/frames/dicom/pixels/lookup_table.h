// DICOM look-up tables (PS3.3 C.11.1, C.11.2 and, for palettes, C.7.6.3.1.5 and C.7.9).
#pragma once

#include <cstdint>
#include <vector>

#include "extract/frames/dicom/data_set.h"

namespace coldframe::frames::dicom {

struct LookupTable {
  double first = 0;  // the input that the first entry belongs to
  int bits = 16;     // of an entry
  std::vector<std::uint16_t> entries;

  bool empty() const { return entries.empty(); }
  // Inputs below and beyond the table have its first and its last entry.
  std::uint16_t at(double input) const;
  double greatest() const { return static_cast<double>((1u << bits) - 1); }

  bool operator==(const LookupTable&) const = default;
};

// DataError when the table is shorter than its descriptor says.
LookupTable read_table(DcmItem& item, const DcmTagKey& descriptor, const DcmTagKey& data,
                       bool signed_inputs);
// Reads a table in the same way; `segmented` holds it where `data` is absent.
LookupTable read_palette(DcmItem& item, const DcmTagKey& descriptor, const DcmTagKey& data,
                         const DcmTagKey& segmented, bool signed_inputs);

}  // namespace coldframe::frames::dicom
