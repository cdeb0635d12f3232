// The registry of readers. A file belongs to the first kind whose `detect` recognises its content.
#include <algorithm>
#include <array>
#include <span>

#include "common/cli/error.h"
#include "common/files/fingerprint.h"
#include "common/text/text.h"
#include "extract/frames/foreign.h"
#include "extract/frames/source.h"

namespace coldframe::frames {

// Each row stands beside its reader.
extern const SourceKind kDicomKind, kStackKind, kImageKind, kBmpKind, kVideoKind, kNpyKind,
    kNiftiKind;

namespace {

// DICOM before images: the preamble of a DICOM file may be the header of a TIFF file.
// Clips last: some of their streams have no signature that other bytes could not have, too.
constexpr std::array kKinds{&kDicomKind, &kStackKind, &kImageKind, &kBmpKind,
                            &kNpyKind,   &kNiftiKind, &kVideoKind};

}  // namespace

std::span<const SourceKind* const> source_kinds() {
  return kKinds;
}

const SourceKind* detect_kind(const SourceFile& file) {
  const auto held = file.hold();
  const auto kind =
      std::ranges::find_if(kKinds, [&](const SourceKind* each) { return each->detect(file); });
  return kind == kKinds.end() ? nullptr : *kind;
}

const SourceKind& require_kind(const SourceFile& file) {
  const auto held = file.hold();
  const std::string_view head = file.head();
  if (head.empty()) throw DataError(concat("'", file.path().string(), "' is empty"));
  if (const SourceKind* kind = detect_kind(file)) return *kind;
  if (const ForeignKind* foreign = foreign_kind(file))
    throw DataError(concat("'", file.path().string(), "' is ", foreign->name,
                           ", which is not read; ", foreign->advice));
  std::vector<std::string> known;
  for (const SourceKind* each : kKinds) known.emplace_back(each->contents);
  throw DataError(concat("'", file.path().string(), "' is of no known kind (its first bytes are ",
                         to_hex(std::as_bytes(std::span(head.substr(0, 8)))), "); expected one of ",
                         join(known, ", ")));
}

}  // namespace coldframe::frames
